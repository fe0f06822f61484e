"""Logged queries: answers that a principal has logged, for training and for proofs."""

import hashlib
import threading

import attrs
import structlog

from narthex._ir import TopicRole, TopicSpec
from narthex._query import answers_topic
from narthex_stores import Adapter, LogProducer, StoreError

log = structlog.get_logger()

KEPT_FOR_MS = 30 * 24 * 3600 * 1000
"""How long a logged answer is retained."""

_CREATED_WITHIN_S = 20.0
_DRAWN_BYTES = 8
_DRAWN = 1 << 8 * _DRAWN_BYTES
_SPEC = TopicSpec(role=TopicRole.INGEST, partitions=1, retention_ms=KEPT_FOR_MS, identity="answers")


@attrs.define(kw_only=True)
class QueryLog:
    """The query log of an installation; its topic is created with the first logged query."""

    install_id: str
    producer: LogProducer
    topics: Adapter
    durable_within_s: float = 10.0
    _is_there: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def keep(self, answer: bytes) -> bool:
        """Append an encoded answer, wait until it is durable, and return whether it is.

        A query is answered even if its answer cannot be logged.
        """
        topic = answers_topic(self.install_id)
        try:
            self._make(topic)
            self.producer.append(topic, value=answer).result(self.durable_within_s)
        except (StoreError, TimeoutError) as error:
            log.warning("query_not_logged", error=str(error))
            return False
        return True

    def _make(self, topic: str) -> None:
        with self._lock:
            if not self._is_there:
                self.topics.create(topic, _SPEC, asset_id=0, timeout_s=_CREATED_WITHIN_S)
                self._is_there = True


def is_drawn(answer: bytes, share: float | None) -> bool:
    """Return whether an answer is in the logged share: sampled by its bytes; None means all."""
    if share is None:
        return True
    drawn = hashlib.blake2b(answer, digest_size=_DRAWN_BYTES).digest()
    return int.from_bytes(drawn, "big") / _DRAWN < share
