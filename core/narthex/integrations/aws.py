"""Secrets that AWS keeps."""

from collections.abc import Sequence

from narthex._ir.entities import AwsSecretRef


def Secret(  # noqa: N802 (it reads as a value)
    arn: str, role_arn: str | None = None, path: Sequence[str] | None = None
) -> AwsSecretRef:
    """Name a secret of AWS Secrets Manager; its value never stands in a definition.

    Args:
        arn: The secret.
        role_arn: The role in which it is read; not given, the platform's own.
        path: The members that lead into it if it is JSON; `secret["a"]["b"]` says the same.
    """
    return AwsSecretRef(arn, role_arn, tuple(path or ()))
