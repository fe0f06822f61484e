"""Secrets that authors' code reads by name while it runs.

Values are never part of definitions, logs or messages of the platform. The process that runs the
code provides the secrets, as with rows in `narthex.lookups`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from narthex.errors import SecretMissing

READS_SECRETS: Final = "narthex.secrets"
"""The module that code imports to read secrets."""


class Provider(Protocol):
    """Finds secrets by name; None where there is none."""

    def __call__(self, name: str) -> str | None: ...


_PROVIDER: ContextVar[Provider | None] = ContextVar("narthex_secrets", default=None)


@contextmanager
def found_by(provider: Provider) -> Iterator[None]:
    """Find secrets inside the block with `provider`."""
    token = _PROVIDER.set(provider)
    try:
        yield
    finally:
        _PROVIDER.reset(token)


def get(secret_name: str) -> str:
    """Return a secret's value.

    Raises:
        SecretMissing: No secret has that name, or this process has no provider of secrets.
    """
    provider = _PROVIDER.get()
    if provider is None:
        raise SecretMissing(
            f"the secret `{secret_name}` is not available here",
            hint="call `secrets.get` in a pipeline's function or in an extractor",
        )
    found = provider(secret_name)
    if found is None:
        raise SecretMissing(
            f"there is no secret `{secret_name}`",
            hint=f'add it, `client.add_secret("{secret_name}", …)`',
        )
    return found
