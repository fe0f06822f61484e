"""Credentials of definitions, and the lookup of the secrets that they name.

A credential is read where it is used, so that definitions, messages and pickles never contain its
value.
"""

import re
from pathlib import Path
from typing import Final, assert_never

import attrs

from narthex._ir.connections import AwsSecretRef, Credential, SecretRef
from narthex.errors import SecretMissing
from narthex.secrets import Provider

SECRET_NAME: Final = re.compile(
    r"(?=.{1,200}$)[A-Za-z0-9_][A-Za-z0-9_.@+-]*(/[A-Za-z0-9_][A-Za-z0-9_.@+-]*)?"
)
"""The name of a secret: at most one `/`, as in `connector/password`."""


@attrs.frozen
class SecretFiles:
    """Secrets that a manager mounts as files of a directory, one per name; read-only."""

    directory: Path

    def __call__(self, name: str) -> str | None:
        """Return a secret's value; None if no secret has that name."""
        if not SECRET_NAME.fullmatch(name):
            return None
        try:
            return (self.directory / name).read_text()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None


def reveal(credential: Credential, secrets: Provider) -> str:
    """Return the value of a credential.

    Raises:
        SecretMissing: The secret does not exist, or is not stored here.
    """
    match credential:
        case SecretRef(name=name):
            found = secrets(name)
            if found is None:
                raise SecretMissing(
                    f"there is no secret `{name}`", hint=f"add it, `narthex secret set {name}`"
                )
            return found
        case AwsSecretRef(arn=arn):
            raise SecretMissing(f"`{arn}`: secrets of AWS are not read by this platform")
        case _:
            assert_never(credential)
