"""Answers that are kept when the principal wants it, so that they can be trained on and proved."""

import hashlib
import threading

import attrs
import structlog

from narthex._ir import TopicRole, TopicSpec
from narthex._query import answers_topic
from narthex_stores import Adapter, LogProducer, StoreError

log = structlog.get_logger()

KEPT_FOR_MS = 30 * 24 * 3600 * 1000
"""For how long an answer is kept."""

_CREATED_WITHIN_S = 20.0
_DRAWN_BYTES = 8
_DRAWN = 1 << 8 * _DRAWN_BYTES
_SPEC = TopicSpec(role=TopicRole.INGEST, partitions=1, retention_ms=KEPT_FOR_MS, identity="answers")


@attrs.define(kw_only=True)
class QueryLog:
    """The log of logged queries of an installation; its topic is made with the first one."""

    install_id: str
    producer: LogProducer
    topics: Adapter
    stands_within_s: float = 10.0
    _is_there: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def keep(self, answer: bytes) -> bool:
        """Append an encoded answer, and wait until it stands; say whether it does.

        A question is answered even if its answer cannot be kept.
        """
        topic = answers_topic(self.install_id)
        try:
            self._make(topic)
            self.producer.append(topic, value=answer).result(self.stands_within_s)
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
    """Whether an answer is among the share that is kept: drawn by its bytes; None is all."""
    if share is None:
        return True
    drawn = hashlib.blake2b(answer, digest_size=_DRAWN_BYTES).digest()
    return int.from_bytes(drawn, "big") / _DRAWN < share
