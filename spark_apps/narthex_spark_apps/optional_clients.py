"""Clients of databases and clouds that a platform installs only where it reads them.

Each has a module of its own that imports it; the module is loaded when a job needs it.
"""

import importlib
from types import ModuleType


class ClientMissingError(ImportError):
    """The client library of a source or a sink is not installed; the message says how to."""


def load_client(module: str, *, extra: str) -> ModuleType:
    """Give a module of this room that imports a client library.

    Args:
        module: Its name within this room.
        extra: What of `narthex[…]` brings the library.

    Raises:
        ClientMissingError: The library is not installed.
    """
    try:
        return importlib.import_module(f"narthex_spark_apps.{module}")
    except ModuleNotFoundError as error:
        raise ClientMissingError(
            f"`{error.name}` is not installed; install it with `narthex[{extra}]`"
        ) from None
