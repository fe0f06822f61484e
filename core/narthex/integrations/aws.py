"""Secrets in AWS."""

from collections.abc import Sequence

from narthex._ir.entities import AwsSecretRef


def Secret(  # noqa: N802 (it reads as a value)
    arn: str, role_arn: str | None = None, path: Sequence[str] | None = None
) -> AwsSecretRef:
    """Name a secret of AWS Secrets Manager; its value is never part of a definition.

    Args:
        arn: The secret.
        role_arn: The role that reads it; by default, the platform's own.
        path: The members that lead into it if it is JSON; `secret["a"]["b"]` means the same.
    """
    return AwsSecretRef(arn, role_arn, tuple(path or ()))
