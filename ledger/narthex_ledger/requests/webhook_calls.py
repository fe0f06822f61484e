"""Calls of webhooks with a key: each appended once, however often and wherever it comes.

An append is written down before it is made, with how long it may still take effect. Who comes with
the same key meanwhile waits; afterwards the log itself says whether it stands.
"""

import datetime as dt
from typing import TypeAlias

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import calls as on_calls
from narthex_ledger.errors import IdempotencyKeyReused
from narthex_ledger.session import LedgerDatabase


@attrs.frozen(kw_only=True)
class AppendNow:
    """Nobody has begun to append it: do, then tell `called`."""


@attrs.frozen(kw_only=True)
class LookForIt:
    """Somebody began and did not say how it ended: look in the log, from an offset on."""

    from_offset: int


@attrs.frozen(kw_only=True)
class AlreadyAppended:
    """It stands there already."""

    partition: int
    offset: int


@attrs.frozen(kw_only=True)
class BeingAppended:
    """Somebody is appending it; ask again."""


CallOutcome: TypeAlias = AppendNow | LookForIt | AlreadyAppended | BeingAppended


class EndpointCallApi(LedgerDatabase):
    """The part of the front door that the webhook uses; each method is one transaction."""

    def begin_call(
        self, topic: str, key: str, *, digest: bytes, from_offset: int, within_s: float
    ) -> CallOutcome:
        """Write down that a call is about to be appended, or say what became of it.

        `from_offset` is at or before the end of the log; the append ends within `within_s`.

        Raises:
            IdempotencyKeyReused: The key came with another call.
        """
        return self._run(
            "begin_call", lambda c: _begin(c, topic, key, digest, from_offset, within_s)
        )

    def called(self, topic: str, key: str, *, partition: int, offset: int) -> None:
        """Keep where a call stands."""
        self._run(
            "called",
            lambda c: on_calls.finish_call(c, topic, key, partition=partition, offset=offset),
        )

    def call_failed(self, topic: str, key: str) -> None:
        """Let the next one look for a call whose append ended in doubt, without waiting."""
        self._run(
            "call_failed", lambda c: on_calls.extend_call(c, topic, key, within=dt.timedelta(0))
        )

    def forget_calls(self, *, older_than: dt.timedelta) -> int:
        """Forget calls that will not come again; gives how many."""
        return self._run("forget_calls", lambda c: on_calls.delete_calls(c, older_than))


def _begin(
    connection: Connection, topic: str, key: str, digest: bytes, from_offset: int, within_s: float
) -> CallOutcome:
    within = dt.timedelta(seconds=within_s)
    call: dict[str, object] = {
        "topic": topic,
        "key": key,
        "digest": digest,
        "from_offset": from_offset,
    }
    if on_calls.insert_call(connection, call, within=within):
        return AppendNow()
    row = on_calls.lock_call(connection, topic, key)
    if bytes(row["digest"]) != digest:
        raise IdempotencyKeyReused(
            f"the idempotency key `{key}` came with another call",
            hint="give each call a key of its own",
        )
    if row["at_offset"] is not None:
        return AlreadyAppended(partition=row["at_partition"], offset=row["at_offset"])
    if row["is_appending"]:
        return BeingAppended()
    on_calls.extend_call(connection, topic, key, within=within)
    return LookForIt(from_offset=row["from_offset"])
