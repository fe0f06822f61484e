"""Where jobs find the secrets that their definitions name, at each start."""

import functools
import os
from pathlib import Path
from typing import Self

import attrs

from narthex.connections import Credential
from narthex.credentials import SecretFiles, reveal
from narthex.settings import Settings, load_settings
from narthex_ledger import Ledger, NotFound, SealedSecrets


@attrs.frozen(kw_only=True)
class AuthorSecrets:
    """Finds secrets by name; it may travel, no value is in it and nothing that opens one.

    Attributes:
        home: Of the installation, in whose ledger they are sealed, and whose key opens them.
        mounted: The directory where a manager mounts them instead; empty: none does.
    """

    home: Path
    mounted: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Give those of an installation."""
        return cls(home=settings.home, mounted=settings.secrets_dir)

    def __call__(self, name: str) -> str | None:
        """Give a secret's value as it is now; None if there is none of that name.

        Raises:
            NotOpenedError: It is sealed, and not by the key of this machine.
        """
        if self.mounted:
            return SecretFiles(Path(self.mounted))(name)
        settings = load_settings({**os.environ, "NARTHEX_HOME": str(self.home)})
        try:
            return _sealed(settings.ledger_dsn, settings.secrets_key).read(name)
        except NotFound:
            return None

    def reveal(self, credential: Credential) -> str:
        """Give the value that a credential stands for.

        Raises:
            SecretMissing: It is not there, or not kept here.
        """
        return reveal(credential, self)


@functools.cache
def _sealed(ledger_dsn: str, key: Path) -> SealedSecrets:
    """Open the ledger where secrets are sealed, once a process: its one connection is kept."""
    return SealedSecrets.of(Ledger(ledger_dsn), key)
