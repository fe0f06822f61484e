"""The errors for which a process of the server refuses to start."""

from typing import Final

from narthex.settings import NotInstalledError
from narthex_ledger import KeyFileError, LedgerError

REFUSED_STARTS: Final = (NotInstalledError, KeyFileError, LedgerError, OSError)


def refused_start(process: str, error: Exception) -> str:
    """Return the line that a process writes when it refuses to start, for its operator.

    Args:
        process: What could not start.
        error: One of `REFUSED_STARTS`.
    """
    reason = error.for_operators if isinstance(error, LedgerError) else str(error)
    return f"narthex: {process} cannot start: {reason}"
