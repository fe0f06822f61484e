"""Client libraries of databases and clouds, which a platform installs only if it needs them.

Each library is imported by one module, which is loaded when a job needs it.
"""

import importlib
from types import ModuleType
from typing import Any, TypeAlias

Part: TypeAlias = Any  # type: ignore[explicit-any]
"""A reader, a writer or a client, whose protocol the caller declares."""


class ClientMissingError(ImportError):
    """The client library of a source or a sink is missing; the message explains how to get it."""


def load_client(module: str, *, install: str) -> ModuleType:
    """Import a module that needs a client library.

    Args:
        module: Its full name.
        install: The requirement that installs the library, such as `narthex[kinesis]`.

    Raises:
        ClientMissingError: The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        how = f"install it with `{install}`" if install else "the connector's package needs it"
        raise ClientMissingError(f"`{error.name}` is not installed; {how}") from None


def load_part(reference: str, *, install: str) -> Part:
    """Import a reader or a writer by the reference in the registry, `module:attribute`.

    Raises:
        ClientMissingError: The client library is not installed, or the module lacks the attribute.
    """
    module, _, attribute = reference.partition(":")
    loaded = load_client(module, install=install)
    try:
        return getattr(loaded, attribute)
    except AttributeError:
        raise ClientMissingError(
            f"`{module}` has no `{attribute}`; correct the `{reference}` of the connector"
        ) from None
