"""Jobs that run as queries of the one Spark session: live ones, and bounded runs."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._ir.assets import ResolvedAsset
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import input_topics, start_query
from narthex_spark_apps.platform.jvm import CODE_CACHE_BYTES
from narthex_stores import PartitionKey

SESSION: Mapping[str, str] = {
    # Queries live for seconds: compiling them better costs more than it gives.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m "
        f"-XX:ReservedCodeCacheSize={CODE_CACHE_BYTES}"
    ),
}

Starts = tuple[tuple[str, int, int], ...]


@attrs.define(kw_only=True)
class LiveQuery:
    """One live job as a query.

    Attributes:
        starts: The start offsets of the first run.
        at: The last offsets that it reported.
        wrong: Why it cannot continue.
    """

    asset: ResolvedAsset
    settings: Settings
    session: Callable[[], SparkSession]
    starts: Starts = ()
    query: StreamingQuery | None = None
    lives: int = 0
    at: dict[PartitionKey, int] = attrs.field(factory=dict)
    wrong: str | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return input_topics(self.asset)

    def start(self) -> None:
        """Start, or continue from the checkpoint."""
        self.lives += 1
        try:
            self.query = start_query(
                self.session(),
                self.asset,
                settings=self.settings,
                bounded=False,
                starts=self.starts,
                epoch=self.lives,
            )
        except PySparkException as error:
            self.wrong = f"{type(error).__name__}: {error}"

    def crash(self) -> None:
        """End in the middle of an interval: what it did since the last one is repeated."""
        if self.query is not None:
            self.query.stop()
            self.query = None

    def look(self) -> None:
        """See whether it still runs, and how far it has read."""
        if self.query is None:
            return
        if not self.query.isActive:
            self.wrong = str(self.query.exception() or "the query ended")
            return
        progress = self.query.lastProgress
        for source in [] if progress is None else json.loads(progress.json)["sources"]:
            for topic, partitions in (source["endOffset"] or {}).items():
                self.at |= {(topic, int(p)): int(o) for p, o in partitions.items()}


def each_at_once(found: Sequence[LiveQuery], *, pool: ThreadPoolExecutor, ends: bool) -> None:
    """Start queries, or end them, several at a time."""
    list(pool.map(LiveQuery.crash if ends else LiveQuery.start, found))


def run_bounded(
    asset: ResolvedAsset, *, session: Callable[[], SparkSession], settings: Settings, epoch: int
) -> str | None:
    """Run a job over all records of its topics; return the error if it failed."""
    try:
        query = start_query(session(), asset, settings=settings, bounded=True, epoch=epoch)
        query.awaitTermination()
    except PySparkException as error:
        return f"{type(error).__name__}: {error}"
    return None


def wait_a_little() -> None:
    """Let Spark work; its progress can only be polled."""
    time.sleep(0.3)
