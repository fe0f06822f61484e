"""Calls that come again: one with the same idempotency key is appended once and answered alike.

The ledger knows which calls were begun and where they stand, so it does not matter which process of
the server a call reaches, or whether one has died since. Of an append in doubt, the log itself says
whether it stands: each record has its key.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import attrs

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
"""How many calls a process remembers: so that it need not ask the ledger, or can tell it."""

KEY_HEADER = "idempotency_key"
READ_S = 5.0
DELIVERY_S = 10.0
IN_DOUBT_S = 60.0
"""Longer than any append can still take effect after it was begun."""

WAIT_S, LOOK_EVERY_S = 5.0, 0.05

Append = Callable[[], "Future[Delivered]"]


@attrs.frozen
class _EndpointCall:
    digest: bytes
    delivered: Delivered


class IdempotencyKeyStore:
    """What became of the calls of endpoints."""

    def __init__(self, ledger: Ledger, open_reader: Callable[[], LogReader]) -> None:
        """Remember nothing yet; `open_reader` gives a reader of the broker."""
        self._ledger = ledger
        self.open_reader = open_reader
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _EndpointCall] = OrderedDict()
        self._end_offsets: dict[str, int] = {}
        self._under_way: OrderedDict[tuple[str, str], Future[Delivered]] = OrderedDict()

    def append(self, topic: str, key: str, value: bytes, append: Append) -> Delivered:
        """Append a call unless it was; give where it stands.

        Raises:
            IdempotencyKeyReused: The key came with another value.
            TransientError: Another process is at it, or the broker does not say what it has.
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
        ends_at = time.monotonic() + WAIT_S
        while True:
            outcome = self._ledger.begin_call(
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
                case BeingAppended():
                    with self._lock:
                        ours = self._under_way.get((topic, key))
                    if ours is not None:
                        return self._awaited(topic, key, ours)
                    if time.monotonic() > ends_at:
                        raise TransientError(f"call `{key}` is being appended; ask again")
                    time.sleep(LOOK_EVERY_S)

    def _append(self, topic: str, key: str, append: Append) -> Delivered:
        appended = append()
        with self._lock:
            self._under_way[topic, key] = appended
            if len(self._under_way) > KEPT:
                self._under_way.popitem(last=False)
        return self._awaited(topic, key, appended)

    def _awaited(self, topic: str, key: str, appended: "Future[Delivered]") -> Delivered:
        """Wait for an append of this process, and tell the ledger how it ended.

        Who waited in vain, or could not tell the ledger, leaves that to the call's next coming.
        """
        try:
            delivered = appended.result(timeout=DELIVERY_S)
        except StoreError:
            # The producer has given up: it stands or not, and the log says which.
            if self._take(topic, key, appended):
                self._tell_failed(topic, key, appended)
            raise
        except TimeoutError as error:
            raise TransientError(f"`{topic}` did not take call `{key}` in time") from error
        kept = self._keep(topic, key, delivered)
        self._take(topic, key, appended)
        return kept

    def _take(self, topic: str, key: str, appended: "Future[Delivered]") -> bool:
        """Take an append from those under way; False when another thread did."""
        with self._lock:
            if self._under_way.get((topic, key)) is not appended:
                return False
            del self._under_way[topic, key]
            return True

    def _tell_failed(self, topic: str, key: str, appended: "Future[Delivered]") -> None:
        """Let the next one look for a call: once, for it may be appended anew right after."""
        try:
            self._ledger.call_failed(topic, key)
        except LedgerError:
            with self._lock:
                self._under_way.setdefault((topic, key), appended)
            raise

    def _keep(self, topic: str, key: str, delivered: Delivered) -> Delivered:
        self._ledger.called(topic, key, partition=delivered.partition, offset=delivered.offset)
        return delivered

    def forget(self, topic: str) -> None:
        """Ask the ledger again when the topic's next call comes, as after a restart."""
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
        """Find a call in its log, from an offset to the end."""
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
