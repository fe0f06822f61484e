"""Secrets that code of authors reads while it runs, by name.

A value is in no definition, no log and no message of ours: who runs the code binds where secrets
are found, as `narthex.lookups` binds how rows are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from narthex.errors import SecretMissing

READS_SECRETS: Final = "narthex.secrets"
"""What code that reads secrets imports."""


class Provider(Protocol):
    """Finds secrets by name; None where there is none."""

    def __call__(self, name: str) -> str | None: ...


_PROVIDER: ContextVar[Provider | None] = ContextVar("narthex_secrets", default=None)


@contextmanager
def found_by(provider: Provider) -> Iterator[None]:
    """Let secrets inside the block be found by `provider`."""
    token = _PROVIDER.set(provider)
    try:
        yield
    finally:
        _PROVIDER.reset(token)


def get(secret_name: str) -> str:
    """Return a secret's value.

    Raises:
        SecretMissing: There is none of that name, or nobody hands out secrets here.
    """
    provider = _PROVIDER.get()
    if provider is None:
        raise SecretMissing(
            f"the secret `{secret_name}` was asked for where nobody hands out secrets",
            hint="call `secrets.get` in a pipeline's function or in an extractor",
        )
    found = provider(secret_name)
    if found is None:
        raise SecretMissing(
            f"there is no secret `{secret_name}`",
            hint=f'add it, `client.add_secret("{secret_name}", …)`',
        )
    return found
