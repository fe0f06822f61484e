"""Secrets that definitions name, as files of a directory: what a person, or a manager, puts there.

Who reads one does so where it is used, so that its value is in no definition, no ledger, no
message and no pickle.
"""

import os
import re
from pathlib import Path
from typing import Final, assert_never

import attrs

from narthex.connections import AwsSecretRef, Credential, SecretRef
from narthex.errors import ArgumentsUnfit, SecretMissing

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*(/[A-Za-z0-9_][A-Za-z0-9_.@+-]*)?")


@attrs.frozen
class SecretFiles:
    """The secrets of one directory: a file each, that only this account may read.

    A name has at most one `/`, as in `connector/password`.
    """

    directory: Path

    def __call__(self, name: str) -> str | None:
        """Give a secret's value; None if there is none of that name."""
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self.directory / name).read_text()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def names(self) -> tuple[str, ...]:
        """Give the names of all secrets."""
        found = (path for path in self.directory.rglob("*") if path.is_file())
        names = (str(path.relative_to(self.directory)) for path in found)
        return tuple(sorted(name for name in names if _NAME.fullmatch(name)))

    def keep(self, name: str, value: str) -> None:
        """Keep a value under a name; whoever reads it next sees it.

        Raises:
            ArgumentsUnfit: The name cannot be one.
        """
        path = self._path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(value)
        fresh.replace(path)

    def forget(self, name: str) -> None:
        """Remove a secret.

        Raises:
            SecretMissing: There is none of that name.
        """
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise SecretMissing(f"there is no secret `{name}`") from None

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ArgumentsUnfit(
                f"`{name}` is no name of a secret",
                hint="write letters, digits and `_.@+-`, with one `/` at most",
            )
        return self.directory / name

    def reveal(self, credential: Credential) -> str:
        """Give the value that a credential stands for.

        Raises:
            SecretMissing: It is not there, or not kept here.
        """
        match credential:
            case SecretRef(name=name):
                found = self(name)
                if found is None:
                    raise SecretMissing(
                        f"there is no secret `{name}`", hint=f"add it, `narthex secret set {name}`"
                    )
                return found
            case AwsSecretRef(arn=arn):
                raise SecretMissing(f"`{arn}`: secrets of AWS are not read by this platform")
            case _:
                assert_never(credential)
