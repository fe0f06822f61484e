"""Calls that come again: one with the same idempotency key is appended once and answered alike.

What was appended is remembered per topic, the newest keys of it; after a restart, and after an
append of which nobody knows whether it stands, the topic itself says it: each record has its key.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import attrs

from narthex_stores import Delivered, LogReader, TransientError

KEPT = 10_000
"""How many calls of a topic are remembered."""

READ_BACK = 1_000
"""How many records of a topic are read to learn which calls it has."""

KEY_HEADER = "idempotency_key"
READ_S = 5.0


class KeyReusedError(ValueError):
    """The idempotency key came with another call before; give each call a key of its own."""


@attrs.frozen
class _Call:
    digest: bytes
    delivered: "Future[Delivered]"


class Once:
    """What the newest calls of each topic were."""

    def __init__(self, open_reader: Callable[[], LogReader]) -> None:
        """Remember nothing yet; `open_reader` gives a reader of the broker."""
        self._open = open_reader
        self._lock = threading.Lock()
        self._calls: dict[str, OrderedDict[str, _Call]] = {}

    def append(
        self, topic: str, key: str, value: bytes, append: Callable[[], "Future[Delivered]"]
    ) -> "Future[Delivered]":
        """Append a call unless it was; give where it stands, or will.

        Raises:
            KeyReusedError: The key came with another value.
            TransientError: The broker does not say what it has.
        """
        digest = hashlib.sha256(value).digest()
        with self._lock:
            calls = self._calls.get(topic)
            if calls is None:
                calls = self._calls[topic] = self._read(topic)
            found = calls.get(key)
            if found is None:
                found = calls[key] = _Call(digest, append())
                found.delivered.add_done_callback(lambda done: self._done(topic, done))
                if len(calls) > KEPT:
                    calls.popitem(last=False)
        if found.digest != digest:
            raise KeyReusedError(f"the idempotency key `{key}` came with another call")
        return found.delivered

    def _done(self, topic: str, delivered: "Future[Delivered]") -> None:
        if delivered.exception() is not None:
            # It may stand or not: the topic is asked when the next call comes.
            threading.Thread(target=self.forget, args=(topic,), daemon=True).start()

    def forget(self, topic: str) -> None:
        """Ask the topic again when its next call comes."""
        with self._lock:
            self._calls.pop(topic, None)

    def _read(self, topic: str) -> OrderedDict[str, _Call]:
        """Read the newest calls of a topic back."""
        calls: OrderedDict[str, _Call] = OrderedDict()
        with self._open() as reader:
            firsts, ends = reader.first_offsets([topic]), reader.end_offsets([topic])
            starts = {place: max(firsts[place], end - READ_BACK) for place, end in ends.items()}
            reader.assign({place: at for place, at in starts.items() if at < ends[place]})
            while any(at < ends[place] for place, at in reader.positions.items()):
                records = reader.poll(max_records=READ_BACK, timeout_s=READ_S)
                if not records:
                    raise TransientError(f"`{topic}` was not read to its end within {READ_S:g} s")
                for record in records:
                    key = dict(record.headers).get(KEY_HEADER, b"").decode()
                    delivered: Future[Delivered] = Future()
                    delivered.set_result(Delivered(record.partition, record.offset))
                    digest = hashlib.sha256(record.value or b"").digest()
                    if key:
                        calls.setdefault(key, _Call(digest, delivered))
        return calls
