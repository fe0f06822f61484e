"""Client libraries of databases and clouds, which a platform installs only if it needs them.

Each library is imported by one module, which is loaded when a job needs it.
"""

import importlib
from types import ModuleType


class ClientMissingError(ImportError):
    """The client library of a source or a sink is missing; the message explains how to get it."""


def load_client(module: str, *, extra: str) -> ModuleType:
    """Import a module of this package that needs a client library.

    Args:
        module: Its full name.
        extra: The extra of `narthex[…]` that installs the library.

    Raises:
        ClientMissingError: The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ClientMissingError(
            f"`{error.name}` is not installed; install it with `narthex[{extra}]`"
        ) from None
