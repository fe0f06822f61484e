"""Idempotent webhook calls: each call with a key is appended once, however often it arrives.

An append is recorded before it is made, with the time in which it may still take effect. Calls with
the same key wait meanwhile, unless the log has the record; after that time, the log itself shows
whether the record is durable.
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
    """No append was begun: append the call, then call `called`."""


@attrs.frozen(kw_only=True)
class LookForIt:
    """An append was begun with an unknown outcome: search the log, from an offset on."""

    from_offset: int


@attrs.frozen(kw_only=True)
class AlreadyAppended:
    """The call was appended already."""

    partition: int
    offset: int


@attrs.frozen(kw_only=True)
class BeingAppended:
    """Another process is appending the call, or has died.

    If its record is in the log, from an offset on, the call was appended. Otherwise retry later.
    """

    from_offset: int


CallOutcome: TypeAlias = AppendNow | LookForIt | AlreadyAppended | BeingAppended


@attrs.frozen
class WebhookCalls:
    """Webhook calls with idempotency keys; each method is one transaction."""

    _db: LedgerDatabase

    def begin(
        self, topic: str, key: str, *, digest: bytes, from_offset: int, within_s: float
    ) -> CallOutcome:
        """Record that a call is about to be appended, or return its earlier outcome.

        `from_offset` is at or before the end of the log; the append ends within `within_s`.

        Raises:
            IdempotencyKeyReused: The key was used with another call.
        """
        return self._db.run(
            "begin_call", lambda c: _begin(c, topic, key, digest, from_offset, within_s)
        )

    def finish(self, topic: str, key: str, *, partition: int, offset: int) -> None:
        """Store the position of an appended call."""
        self._db.run(
            "called",
            lambda c: on_calls.finish_call(c, topic, key, partition=partition, offset=offset),
        )

    def fail(self, topic: str, key: str) -> None:
        """Let the next retry resolve an append of unknown outcome, without waiting."""
        self._db.run(
            "call_failed", lambda c: on_calls.extend_call(c, topic, key, within=dt.timedelta(0))
        )

    def forget(self, *, older_than: dt.timedelta) -> int:
        """Delete calls that will not be retried; return how many."""
        return self._db.run("forget_calls", lambda c: on_calls.delete_calls(c, older_than))


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
    if row.digest != digest:
        raise IdempotencyKeyReused(
            f"the idempotency key `{key}` came with another call",
            hint="give each call a key of its own",
        )
    if row.at_partition is not None and row.at_offset is not None:
        return AlreadyAppended(partition=row.at_partition, offset=row.at_offset)
    if row.is_appending:
        return BeingAppended(from_offset=row.from_offset)
    on_calls.extend_call(connection, topic, key, within=within)
    return LookForIt(from_offset=row.from_offset)
