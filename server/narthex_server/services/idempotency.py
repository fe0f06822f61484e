"""The idempotency of calls: one with a repeated key is appended once and answered alike.

The ledger has the state of every call that was begun, so retries may reach any process of the
server, also after one has died. For an append in doubt, the log itself shows whether it was
written: each record has its key.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import attrs

from narthex._base import Backoff
from narthex_ledger import (
    AlreadyAppended,
    AppendNow,
    BeingAppended,
    IdempotencyKeyReused,
    Ledger,
    LedgerError,
    LookForIt,
)
from narthex_stores import Delivered, LogReader, StoreError, TransientError

KEPT = 10_000
"""How many calls a process remembers, to save ledger reads, or to report their results."""

KEY_HEADER = "idempotency_key"
READ_S = 5.0
DELIVERY_S = 10.0
IN_DOUBT_S = 60.0
"""Longer than an append can take effect after it was begun."""

WAIT_S = 2.0
"""How long to wait for another process before the log is searched for its record."""

POLL = Backoff(first_s=0.02, greatest_s=0.1)

Append = Callable[[], "Future[Delivered]"]


@attrs.frozen
class _EndpointCall:
    digest: bytes
    delivered: Delivered


class IdempotencyKeyStore:
    """The results of endpoints' calls, by idempotency key."""

    def __init__(self, ledger: Ledger, open_reader: Callable[[], LogReader]) -> None:
        """Create an empty store; `open_reader` returns a reader of the broker."""
        self._ledger = ledger
        self.open_reader = open_reader
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _EndpointCall] = OrderedDict()
        self._end_offsets: dict[str, int] = {}
        self._under_way: OrderedDict[tuple[str, str], Future[Delivered]] = OrderedDict()

    def append(self, topic: str, key: str, value: bytes, append: Append) -> Delivered:
        """Append a call unless it was appended; return its position in the log.

        Raises:
            IdempotencyKeyReused: The key came with another value.
            TransientError: Another process is appending it, or the broker does not answer.
        """
        digest = hashlib.sha256(value).digest()
        with self._lock:
            known = self._known.get((topic, key))
        if known is None:
            known = _EndpointCall(digest, self._appended(topic, key, digest, append))
            with self._lock:
                self._known[topic, key] = known
                self._end_offsets[topic] = max(
                    self._end_offsets.get(topic, 0), known.delivered.offset
                )
                if len(self._known) > KEPT:
                    self._known.popitem(last=False)
        if known.digest != digest:
            raise IdempotencyKeyReused(f"the idempotency key `{key}` came with another call")
        return known.delivered

    def _appended(self, topic: str, key: str, digest: bytes, append: Append) -> Delivered:
        doubted_from: int | None = None
        for _ in POLL.attempts(within_s=WAIT_S):
            outcome = self._ledger.webhook_calls.begin(
                topic, key, digest=digest, from_offset=self._end_offset(topic), within_s=IN_DOUBT_S
            )
            match outcome:
                case AlreadyAppended(partition=partition, offset=offset):
                    return Delivered(partition, offset)
                case AppendNow():
                    return self._append(topic, key, append)
                case LookForIt(from_offset=start):
                    found = self._look(topic, key, start)
                    return (
                        self._keep(topic, key, found) if found else self._append(topic, key, append)
                    )
                case BeingAppended(from_offset=doubted_from):
                    with self._lock:
                        ours = self._under_way.get((topic, key))
                    if ours is not None:
                        return self._awaited(topic, key, ours)
        # The other process may have died: its record counts, but a missing one may still arrive.
        found = None if doubted_from is None else self._look(topic, key, doubted_from)
        if found is None:
            raise TransientError(f"call `{key}` is being appended; retry")
        return self._keep(topic, key, found)

    def _append(self, topic: str, key: str, append: Append) -> Delivered:
        appended = append()
        with self._lock:
            self._under_way[topic, key] = appended
            if len(self._under_way) > KEPT:
                self._under_way.popitem(last=False)
        return self._awaited(topic, key, appended)

    def _awaited(self, topic: str, key: str, appended: "Future[Delivered]") -> Delivered:
        """Wait for an append of this process, and record its result in the ledger.

        On timeout, or if the ledger is unreachable, the next retry resolves the outcome.
        """
        try:
            delivered = appended.result(timeout=DELIVERY_S)
        except StoreError:
            # The producer has given up: only the log shows whether the record was written.
            if self._take(topic, key, appended):
                self._tell_failed(topic, key, appended)
            raise
        except TimeoutError as error:
            raise TransientError(f"`{topic}` did not take call `{key}` in time") from error
        stored = self._keep(topic, key, delivered)
        self._take(topic, key, appended)
        return stored

    def _take(self, topic: str, key: str, appended: "Future[Delivered]") -> bool:
        """Remove an append from those in flight; False when another thread did."""
        with self._lock:
            if self._under_way.get((topic, key)) is not appended:
                return False
            del self._under_way[topic, key]
            return True

    def _tell_failed(self, topic: str, key: str, appended: "Future[Delivered]") -> None:
        """Let the next retry search the log: once, as it may append the call right after."""
        try:
            self._ledger.webhook_calls.fail(topic, key)
        except LedgerError:
            with self._lock:
                self._under_way.setdefault((topic, key), appended)
            raise

    def _keep(self, topic: str, key: str, delivered: Delivered) -> Delivered:
        self._ledger.webhook_calls.finish(
            topic, key, partition=delivered.partition, offset=delivered.offset
        )
        return delivered

    def forget(self, topic: str) -> None:
        """Drop the topic's state, so that its next call reads the ledger, as after a restart."""
        with self._lock:
            self._known = OrderedDict(
                (place, call) for place, call in self._known.items() if place[0] != topic
            )
            self._end_offsets.pop(topic, None)

    def _end_offset(self, topic: str) -> int:
        """Return an offset at or before the end of a topic, which has one partition."""
        with self._lock:
            tip = self._end_offsets.get(topic)
        if tip is None:
            with self.open_reader() as reader:
                tip = min(reader.end_offsets([topic]).values(), default=0)
            with self._lock:
                self._end_offsets.setdefault(topic, tip)
        return tip

    def _look(self, topic: str, key: str, start: int) -> Delivered | None:
        """Return a call's position in its log, searched from an offset to the end."""
        with self.open_reader() as reader:
            firsts, ends = reader.first_offsets([topic]), reader.end_offsets([topic])
            reader.assign(
                {p: max(start, firsts[p]) for p, end in ends.items() if max(start, firsts[p]) < end}
            )
            while any(at < ends[place] for place, at in reader.positions.items()):
                records = reader.poll(max_records=1_000, timeout_s=READ_S)
                if not records:
                    raise TransientError(f"`{topic}` was not read to its end within {READ_S:g} s")
                for record in records:
                    if dict(record.headers).get(KEY_HEADER, b"").decode() == key:
                        return Delivered(record.partition, record.offset)
        return None
