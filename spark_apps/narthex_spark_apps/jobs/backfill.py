"""The bounded run of a commit: drain every job that owes a backfill, in dependency order.

It borrows each job under a new epoch, runs the same code as the live job with `availableNow`, and
returns the job with the offsets at which the live run starts. After a crash the run is repeated
and yields the same facts. Before a job with a join runs, its indexes must contain everything that
their logs hold; the supervisor runs the index writers, so this run only waits for them.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self
from uuid import UUID

import attrs
import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._base import Backoff, Json
from narthex._ir import (
    IndexSpec,
    ResolvedAsset,
    ResolvedNeed,
    SinkJobSpec,
)
from narthex.settings import Settings
from narthex_ledger import Epoch, Fenced, JobView, Ledger, LedgerError
from narthex_spark_apps.jobs.dependency_order import in_dependency_order
from narthex_spark_apps.jobs.live_job import reported_offsets
from narthex_spark_apps.jobs.polled_read import read_polled
from narthex_spark_apps.jobs.start import (
    file_source,
    input_broker,
    input_topics,
    is_polled,
    start_query,
)
from narthex_spark_apps.pipelines.python_pipeline import open_index
from narthex_spark_apps.supervision.runner import describe_error
from narthex_stores import LogReader, index_store, platform_broker

log = structlog.get_logger()

REPORT_EVERY_S = 10.0
POLL = Backoff(first_s=0.1, greatest_s=1.0)
INDEX_WAIT_S = 1800.0
AT_ONCE = 3
"""Jobs that run at the same time: one more than the cores that one job keeps busy."""


class IndexBehindError(TimeoutError):
    """An index of a join did not catch up, perhaps because no supervisor is running."""


@attrs.frozen(kw_only=True)
class Filled:
    """One drained job."""

    job: str
    rows: int
    seconds: float


class Backfill:
    """The bounded run of one commit."""

    def __init__(
        self,
        commit_id: UUID,
        *,
        ledger: Ledger,
        settings: Settings,
        session: Callable[[], SparkSession],
    ) -> None:
        """Prepare the run; the first job that needs Spark starts it."""
        self._commit_id = commit_id
        self._ledger = ledger
        self._settings = settings
        self._open = session
        self._opening = threading.Lock()

    def run(self, *, progress: Callable[[str], None]) -> list[Filled]:
        """Drain every job that owes a backfill, several at a time; return the drained jobs.

        A job starts when all jobs that write its inputs are done.
        """
        due = {job.asset.asset_id: job for job in self._due()}
        before = {
            asset_id: {other.asset.asset_id for other in _writers_before(job, due.values())}
            for asset_id, job in due.items()
        }

        def fill(asset_id: int) -> Filled | None:
            job = due[asset_id]
            progress(f"backfill of {_label(job.asset)} ({job.asset.physical_name})")
            return self._fill(job, progress=progress)

        done: list[Filled] = []
        for number, filled in enumerate(
            in_dependency_order(before, fill, at_once=AT_ONCE), start=1
        ):
            if filled is not None:
                done.append(filled)
                progress(
                    f"  {filled.job}: {filled.rows} rows in {filled.seconds:.1f} s, "
                    f"{len(due) - number} of {len(due)} jobs left"
                )
        return done

    def _session(self) -> SparkSession:
        with self._opening:
            return self._open()

    def _due(self) -> list[JobView]:
        """Return the jobs of the commit that owe a backfill, writers before readers."""
        return in_order(self._ledger.backfills.due(self._commit_id))

    def _fill(self, job: JobView, *, progress: Callable[[str], None]) -> Filled | None:
        asset = job.asset
        epoch = self._ledger.backfills.claim(self._commit_id, asset.asset_id)
        if epoch is None:
            return None
        began = time.monotonic()
        with BackfillLoan(self._ledger, asset.asset_id, epoch) as loan:
            offsets, rows = self._drain(asset, loan, progress)
        self._ledger.backfills.finish(asset.asset_id, epoch, offsets=offsets, rows=rows)
        return Filled(job=_label(asset), rows=rows, seconds=round(time.monotonic() - began, 2))

    def _drain(
        self, asset: ResolvedAsset, loan: "BackfillLoan", progress: Callable[[str], None]
    ) -> tuple[dict[str, Json], int]:
        if isinstance(asset.spec, SinkJobSpec):
            # A sink keeps its own state, and its live run starts at the beginning of its log.
            return {}, 0
        if is_polled(asset):
            return {}, read_polled(self._session().sparkContext, asset, self._settings)
        files = file_source(self._session, asset, self._settings)
        if files is not None:
            rows = sum(files.read(file).get("rows", 0) for file in files.unread())
            return {}, rows
        # The first wait spares the live run corrections. The second wait is needed because changes
        # announced before `ends` must be in the indexes: the live run does not read them.
        self._await_indexes(asset, loan, progress)
        ends, is_empty = self._ends_of(asset)
        if is_empty:
            return _offsets(ends), 0
        self._await_indexes(asset, loan, progress)
        query = start_query(
            self._session(), asset, settings=self._settings, bounded=True, epoch=int(loan.epoch)
        )
        rows = sum(map(_sum, ends.values()))
        while not query.awaitTermination(1):
            loan.note({"rows": _rows_read(query), "of": rows})
        return _offsets(ends), rows

    def _ends_of(self, asset: ResolvedAsset) -> tuple[dict[str, dict[int, int]], bool]:
        """Return the current end offsets of the job's topics, and whether the topics are empty.

        The bounded run reads at least up to these offsets.
        """
        found: dict[str, dict[int, int]] = {}
        topics = input_topics(asset)
        with LogReader(input_broker(asset, self._settings)) as reader:
            ends, firsts = reader.end_offsets(topics), reader.first_offsets(topics)
        for (topic, partition), end in ends.items():
            found.setdefault(topic, {})[partition] = end
        return found, ends == firsts

    def _await_indexes(
        self, asset: ResolvedAsset, loan: "BackfillLoan", progress: Callable[[str], None]
    ) -> None:
        feeds = _logs_of_indexes(self._ledger.jobs.all())
        for need in asset.needs:
            if isinstance(need.spec, IndexSpec) and need.asset_id in feeds:
                self._await_index(need, need.spec, feeds[need.asset_id], loan, progress)

    def _await_index(
        self,
        need: ResolvedNeed,
        spec: IndexSpec,
        topic: str,
        loan: "BackfillLoan",
        progress: Callable[[str], None],
    ) -> None:
        """Wait until the index contains everything that its log holds now."""
        with LogReader(platform_broker(self._settings)) as reader:
            wanted = reader.end_offsets([topic])
        index = open_index(index_store(self._settings), need.physical_name, spec)
        for _ in POLL.attempts(within_s=INDEX_WAIT_S):
            if not _behind(index.offsets(), wanted):
                progress(f"  {need.role} is caught up")
                return
            loan.note({"waiting_for": need.role})
        raise IndexBehindError(f"{need.role} `{need.physical_name}`")


def in_order(jobs: Sequence[JobView]) -> list[JobView]:
    """Order jobs so that each runs after the writers of its inputs and of their indexes."""
    ordered: dict[int, JobView] = {}

    def visit(job: JobView, reading: frozenset[int]) -> None:
        if job.asset.asset_id in ordered or job.asset.asset_id in reading:
            return
        for writer in _writers_before(job, jobs):
            visit(writer, reading | {job.asset.asset_id})
        ordered[job.asset.asset_id] = job

    for job in sorted(jobs, key=lambda j: j.asset.asset_id):
        visit(job, frozenset())
    return list(ordered.values())


def _writers_before(job: JobView, jobs: Iterable[JobView]) -> Iterable[JobView]:
    """Return the jobs that write the inputs of this one; several sources may write one log."""
    read = {
        need.asset_id for need in job.asset.needs if need.role.startswith(("input", "touched:"))
    }
    looked_up = any(need.role.startswith("right:") for need in job.asset.needs)
    for other in jobs:
        if other.asset.asset_id == job.asset.asset_id:
            continue
        writes = {need.asset_id for need in other.asset.needs if need.role == "output"}
        is_source = not any(n.role.startswith("input:") for n in other.asset.needs)
        if writes & read or (looked_up and is_source):
            yield other


def _logs_of_indexes(jobs: Iterable[JobView]) -> dict[int, str]:
    """Return the log topic of each index that has a feed."""
    found: dict[int, str] = {}
    for job in jobs:
        roles = {need.role: need for need in job.asset.needs}
        if "index" in roles and "log" in roles:
            found[roles["index"].asset_id] = roles["log"].physical_name
    return found


def _behind(offsets: Mapping[tuple[str, int], int], wanted: Mapping[tuple[str, int], int]) -> bool:
    return any(offsets.get(place, 0) < end for place, end in wanted.items())


def _rows_read(query: StreamingQuery) -> int:
    """Return the number of records that a query has read, by its last progress report."""
    report = query.lastProgress
    offsets = [] if report is None else reported_offsets(report)
    return sum(_sum(partitions) for source in offsets for partitions in source.values())


def _sum(partitions: Mapping[int, int]) -> int:
    return sum(partitions.values())


def _offsets(ends: Mapping[str, Mapping[int, int]]) -> dict[str, Json]:
    return {topic: {str(p): o for p, o in found.items()} for topic, found in ends.items()}


def _label(asset: ResolvedAsset) -> str:
    return str(getattr(asset.spec, "dataset", asset.physical_name))


class BackfillLoan:
    """A borrowed job; progress reports keep the loan alive while Spark works."""

    def __init__(self, ledger: Ledger, asset_id: int, epoch: Epoch) -> None:
        self._ledger = ledger
        self._asset_id = asset_id
        self.epoch = epoch
        self._progress: dict[str, Json] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="loan", daemon=True)

    def note(self, progress: dict[str, Json]) -> None:
        """Record the progress of the run for the next report."""
        self._progress = progress

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, *_rest: object) -> None:
        self._done.set()
        self._thread.join()
        if error is not None:
            self._ledger.backfills.release(self._asset_id, self.epoch, error=describe_error(error))

    def _keep(self) -> None:
        while not self._done.wait(REPORT_EVERY_S):
            try:
                self._ledger.backfills.report(
                    self._asset_id, self.epoch, progress=dict(self._progress)
                )
            except Fenced:  # the run ends when it writes next, or finishes
                return
            except LedgerError as error:
                log.warning("backfill_not_reported", asset_id=self._asset_id, error=str(error))


def say(line: str) -> None:
    """Print a line for a person, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
