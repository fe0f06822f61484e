"""Compact histories beside the writer's loop: one table at a time, in a thread.

A compaction takes seconds, in which the loop goes on writing, to the same table too. The thread
opens the table itself: the two commit beside each other, and the one that comes second tries again.
Compaction changes no content, so it needs no epoch, and a feed that has ended may still be
compacted.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
import structlog

from narthex_spark_apps.supervision.runner_messages import ShardId
from narthex_stores import HistoryTable, TransientError

log = structlog.get_logger()

COMPACT_EACH = 100
"""Small files after which a history is compacted: readers and writers hold a list of them."""


class CompactedFeed(Protocol):
    """A feed whose table can be compacted.

    Attributes:
        topic: The name of its log.
        open_table: Opens the table once more, for another thread.
        small_files: How many files were written since the last compaction began, or more.
    """

    topic: str
    open_table: Callable[[], HistoryTable]
    small_files: int


@attrs.define
class Compactions:
    """Runs the compactions of all feeds, one after the other."""

    _thread: threading.Thread | None = None

    def begin_next(self, feeds: Mapping[ShardId, CompactedFeed]) -> None:
        """Begin to compact the table with most small files, if one has enough and none runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        due = max(feeds.values(), key=_small_files, default=None)
        if due is None or due.small_files < COMPACT_EACH:
            return
        due.small_files = 0
        self._thread = threading.Thread(
            target=_compact, args=(due.topic, due.open_table), name="compaction", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the present compaction has ended."""
        if self._thread is not None:
            self._thread.join()


def _small_files(feed: CompactedFeed) -> int:
    return feed.small_files


def _compact(topic: str, open_table: Callable[[], HistoryTable]) -> None:
    try:
        replaced = open_table().compact()
    except (TransientError, OSError) as error:
        # Nothing depends on the compaction; the next files make it due again.
        log.warning("history_not_compacted", topic=topic, error=str(error))
    else:
        log.info("history_compacted", topic=topic, files=replaced)
