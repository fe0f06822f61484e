"""What callers give the ledger and get from it about who may do what, and what is secret."""

import datetime as dt

import attrs

from narthex._base import Json


@attrs.frozen(kw_only=True)
class TokenView:
    """An API token's rights; the token itself is nowhere, only its hash.

    Attributes:
        token_id: Its public name, which stands in the token too.
        branches: Patterns of the branches that it is for; `*` stands for any characters.
        tags: Patterns of the tags that it is for; what has none is for all.
    """

    name: str
    scopes: tuple[str, ...]
    expires_at: dt.datetime | None
    token_id: str = ""
    branches: tuple[str, ...] = ("*",)
    tags: tuple[str, ...] = ("*",)
    created_by: str = ""
    created_at: dt.datetime | None = None
    last_used_at: dt.datetime | None = None
    revoked_at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class LogEntry:
    """One line of the chained log of the control plane."""

    number: int
    at: dt.datetime
    entry: Json
    sha256: bytes


@attrs.frozen(kw_only=True)
class LogHead:
    """The newest entry of the control log, as it is shipped outside the database."""

    number: int
    sha256: bytes
    signature: bytes | None


@attrs.frozen(kw_only=True)
class BrokenLog:
    """The first entry of the control log that is not what the server wrote, and why."""

    number: int
    why: str


@attrs.frozen(kw_only=True)
class SecretView:
    """A secret as it is kept: sealed; what opens it is not in the database.

    Attributes:
        version: Grows with each value; it is sealed in, so that none can stand for another.
    """

    name: str
    version: int
    sealed: Json
    changed_by: str
    changed_at: dt.datetime
