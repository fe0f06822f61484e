"""Read secrets that are sealed in the ledger of an installation."""

import functools
import os
from pathlib import Path

from narthex.settings import load_settings
from narthex_ledger import Ledger, NotFound, SealedValues


def read_sealed(home: Path, name: str) -> str | None:
    """Return the current value of a secret of the installation at `home`; None if it has none.

    Raises:
        NotOpenedError: The secret is sealed with another key than this machine's.
    """
    settings = load_settings({**os.environ, "NARTHEX_HOME": str(home)})
    try:
        return _sealed(settings.ledger_dsn, settings.secrets_key).read(name)
    except NotFound:
        return None


@functools.cache
def _sealed(ledger_dsn: str, key: Path) -> SealedValues:
    """Open the ledger with the sealed secrets, once for each process, on one connection."""
    return SealedValues.secrets(Ledger(ledger_dsn), key)
