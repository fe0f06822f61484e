"""The ledger's input and output values for tokens, the control log and secrets."""

import datetime as dt

import attrs

from narthex._base import Json


@attrs.frozen(kw_only=True)
class TokenView:
    """An API token's rights; the token itself is not stored, only its hash.

    Attributes:
        token_id: Its public name, which is part of the token too.
        branches: Patterns of the branches that it is valid for; `*` matches any characters.
        tags: Patterns of the tags that it is valid for; entities without tags are open to all.
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
class TokenSuccessor:
    """The token that takes the place of another one.

    Attributes:
        token: Its value; the ledger stores only the hash.
        overlap: How long the other token remains valid, if it does not expire before.
        greatest_lifetime: The lifetime is that of the other token, but not longer than this.
    """

    token: str = attrs.field(repr=False)
    token_id: str
    overlap: dt.timedelta
    greatest_lifetime: dt.timedelta
    actor: str


@attrs.frozen(kw_only=True)
class RenewedSignatures:
    """The result of a pass over signed rows.

    Attributes:
        rows: How many rows matched their signatures.
        first: Some of them.
        refused: Those that did not.
    """

    rows: int = 0
    first: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __add__(self, other: "RenewedSignatures") -> "RenewedSignatures":
        return RenewedSignatures(
            rows=self.rows + other.rows,
            first=self.first or other.first,
            refused=self.refused + other.refused,
        )


@attrs.frozen(kw_only=True)
class LogEntry:
    """One line of the chained log of the control plane."""

    number: int
    at: dt.datetime
    entry: Json
    sha256: bytes


@attrs.frozen(kw_only=True)
class LogHead:
    """The newest entry of the control log, in the form shipped outside the database."""

    number: int
    sha256: bytes
    signature: bytes | None


@attrs.frozen(kw_only=True)
class BrokenLog:
    """The first entry of the control log that the server did not write so, and why."""

    number: int
    why: str


@attrs.frozen(kw_only=True)
class SealedView:
    """A sealed value, such as a secret; the key that opens it is not in the database.

    Attributes:
        version: Grows with each value; sealed with it, so that versions cannot be swapped.
    """

    name: str
    version: int
    sealed: Json
    changed_by: str
    changed_at: dt.datetime
