"""Clients of databases and clouds that a platform installs only where it reads them.

Each has a module of its own that imports it; the module is loaded when a job needs it.
"""

import importlib
from types import ModuleType


class ClientMissingError(ImportError):
    """The client library of a source or a sink is not installed; the message says how to."""


def load_client(module: str, *, extra: str) -> ModuleType:
    """Import a module of this room that needs a client library.

    Args:
        module: Its full name.
        extra: What of `narthex[…]` brings the library.

    Raises:
        ClientMissingError: The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ClientMissingError(
            f"`{error.name}` is not installed; install it with `narthex[{extra}]`"
        ) from None
