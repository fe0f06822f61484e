"""Estimates of a backfill: rows and bytes to read, and the time at a known pace.

Every number has a basis: offsets are the broker's, sizes are the files', the pace is that of
former backfills of this installation. Numbers without a basis are omitted.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from narthex._ir import (
    AssetBlueprint,
    AssetRef,
    Blueprint,
    Connector,
    Files,
    KafkaTopic,
    Parquet,
    PipelineJobSpec,
    ResolvedAsset,
    SourceJobSpec,
    WebhookEndpoint,
)
from narthex.settings import Settings
from narthex_ledger import CommitPlan
from narthex_stores import (
    LogReader,
    Record,
    StoreError,
    TransientError,
    find_beneath,
    open_beneath,
    platform_broker,
)

ASK_S = 3.0
"""How long a plan waits for a broker to return the size of a topic."""

ASK_ALL_S = 10.0
"""How long a plan asks brokers in all, however many topics it reads."""

SAMPLE_RECORDS = 50
"""How many records of a topic are read to learn how large they are."""

SAMPLE_BYTES = 65_536
"""How much of a file of lines is read to estimate the length of its lines."""


@attrs.frozen(kw_only=True)
class TopicSize:
    """The size of a topic now; both counts are extrapolated from a sample of its records."""

    rows: int
    size_bytes: int


class BackfillEstimate(TypedDict):
    """The history that a new job has to drain; unknown amounts are null.

    Attributes:
        rows: The upper bound of rows.
        seconds: The time at the pace of former backfills.
        basis: The origin of the numbers.
    """

    label: str
    rows: int | None
    bytes: int | None
    seconds: float | None
    basis: str


@attrs.frozen(kw_only=True)
class Estimate:
    """The history that one job has to drain.

    Attributes:
        rows: The upper bound of rows; None when it cannot be known before the job runs.
        size_bytes: The size of the files, or of the records, uncompressed.
        seconds: The time at the pace of former backfills; None without rows or former backfills.
        basis: The origin of the numbers.
    """

    label: str
    rows: int | None
    size_bytes: int | None
    seconds: float | None
    basis: str

    def plain(self) -> BackfillEstimate:
        """Render as JSON."""
        return {
            "label": self.label,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "seconds": self.seconds,
            "basis": self.basis,
        }


@attrs.frozen(kw_only=True)
class Places:
    """The places where rows are stored.

    Attributes:
        names: The physical names of topics that exist already.
        held: Returns the size of a topic on a broker, by its address (empty: the platform's own).
        rows_per_s: The pace of former backfills; None when there was none.
    """

    names: Mapping[AssetRef, str]
    held: Callable[[str, str], TopicSize]
    files_root: Path
    rows_per_s: float | None


@attrs.frozen(kw_only=True)
class _Amount:
    rows: int | None
    basis: str
    size_bytes: int | None = None


_UNKNOWN = _Amount(rows=None, basis="its source reports offsets only while it is read")


def estimate(blueprint: Blueprint, plan: CommitPlan, places: Places) -> tuple[Estimate, ...]:
    """Return the estimate of each job in a plan's backfill, writers before readers."""
    due = {(asset.kind, asset.fingerprint) for asset in plan.backfill}
    written: dict[AssetRef, int | None] = {}
    found: list[Estimate] = []
    for asset in _writers_first(blueprint, due):
        amount = _amount(asset, written, places)
        for output in _needed(asset, "output"):
            rows = written.get(output, 0)
            written[output] = None if None in {rows, amount.rows} else rows + amount.rows  # type: ignore[operator]
        found.append(
            Estimate(
                label=asset.label,
                rows=amount.rows,
                size_bytes=amount.size_bytes,
                seconds=_seconds(amount.rows, places.rows_per_s),
                basis=amount.basis,
            )
        )
    return tuple(found)


def rows_to_read(
    jobs: Iterable[ResolvedAsset], held: Callable[[str, str], TopicSize], files_root: Path
) -> int | None:
    """Return the rows that sources and existing logs have for jobs now; None if some are unknown.

    Rows that one job of the backfill writes for another are not counted again.
    """
    logs: set[str] = set()
    amounts: list[_Amount] = []
    for job in jobs:
        match job.spec:
            case SourceJobSpec(source=source):
                topics = [need.physical_name for need in job.needs if need.role == "input"]
                amounts.append(_of_source(source.connector, topics, held, files_root))
            case PipelineJobSpec():
                logs.update(n.physical_name for n in job.needs if n.role.startswith("input:"))
            case _:
                # A sink reads its log when it is live.
                pass
    amounts += [_measured(partial(held, "", topic), "the log") for topic in sorted(logs)]
    rows = [amount.rows for amount in amounts]
    return None if None in rows else sum(n for n in rows if n is not None)


def _of_source(
    connector: Connector,
    topics: Iterable[str],
    held: Callable[[str, str], TopicSize],
    files_root: Path,
) -> _Amount:
    match connector:
        case Files() as files:
            return _in_files(files, files_root)
        case KafkaTopic() as topic if topic.username is None:
            address = topic.bootstrap_servers or ""
            return _measured(lambda: held(address, topic.topic), f"`{topic.topic}`")
        case WebhookEndpoint():
            found = [_measured(partial(held, "", name), "the log") for name in topics]
            return found[0] if found else _UNKNOWN
        case _:
            return _UNKNOWN


def asking(settings: Settings) -> Callable[[str, str], TopicSize]:
    """Return what asks brokers for the size of topics, for `ASK_ALL_S` in all from now on.

    After that it raises an error for each further topic: a broker that is silent costs no more.
    """
    ends_at = time.monotonic() + ASK_ALL_S

    def held(address: str, topic: str) -> TopicSize:
        if time.monotonic() > ends_at:
            raise TransientError(f"brokers have been asked for {ASK_ALL_S:g} s")
        with LogReader(address or platform_broker(settings)) as reader:
            return held_in(reader, topic)

    return held


def held_in(reader: LogReader, topic: str) -> TopicSize:
    """Return the size of a topic: its offsets, times the averages of its newest records.

    Raises:
        StoreError: The broker does not answer.
    """
    ends = reader.end_offsets([topic], timeout_s=ASK_S)
    firsts = reader.first_offsets([topic], timeout_s=ASK_S)
    count = sum(ends.values()) - sum(firsts.values())
    if not count:
        return TopicSize(rows=0, size_bytes=0)
    reader.assign(
        {p: max(firsts[p], end - SAMPLE_RECORDS) for p, end in ends.items() if end > firsts[p]}
    )
    sample = reader.poll(max_records=SAMPLE_RECORDS, timeout_s=ASK_S)
    if not sample:
        return TopicSize(rows=count, size_bytes=0)
    rows = sum(map(_rows_of, sample)) / len(sample)
    size = sum(len(record.value or b"") for record in sample) / len(sample)
    return TopicSize(rows=round(count * rows), size_bytes=round(count * size))


def _rows_of(record: Record) -> int:
    """Count the rows of a record: an accepted call of a webhook has several."""
    value = record.value or b""
    if not value.startswith(b'{"rows":'):
        return 1
    return len(json.loads(value)["rows"])


def _writers_first(
    blueprint: Blueprint, due: Iterable[tuple[object, bytes]]
) -> list[AssetBlueprint]:
    """Order the jobs as the blueprint does, in which a dataset comes after its inputs."""
    wanted = set(due)
    return [asset for asset in blueprint.assets if (asset.kind, asset.fingerprint) in wanted]


def _amount(
    asset: AssetBlueprint, written: Mapping[AssetRef, int | None], places: Places
) -> _Amount:
    match asset.spec:
        case SourceJobSpec(source=source):
            if isinstance(source.connector, WebhookEndpoint):
                return _in_topics(_needed(asset, "input"), written, places)
            return _of_source(source.connector, (), places.held, places.files_root)
        case PipelineJobSpec():
            inputs = [need.asset for need in asset.needs if need.role.startswith("input:")]
            return _in_topics(inputs, written, places)
        case _:
            return _Amount(rows=None, basis="not known")


def _in_topics(
    topics: Iterable[AssetRef], written: Mapping[AssetRef, int | None], places: Places
) -> _Amount:
    rows, size = 0, 0
    for topic in topics:
        if topic in written:
            made = written[topic]
            if made is None:
                return _Amount(rows=None, basis="this backfill writes its input")
            rows += made
        name = places.names.get(topic)
        if name is not None:
            amount = _measured(partial(places.held, "", name), "the log")
            if amount.rows is None:
                return amount
            rows, size = rows + amount.rows, size + (amount.size_bytes or 0)
    return _Amount(rows=rows, size_bytes=size or None, basis="offsets of the logs that it reads")


def _measured(ask: Callable[[], TopicSize], what: str) -> _Amount:
    try:
        held = ask()
    except StoreError as error:
        return _Amount(rows=None, basis=f"the broker did not return it: {error}")
    return _Amount(rows=held.rows, size_bytes=held.size_bytes, basis=f"offsets of {what}")


def _in_files(files: Files, root: Path) -> _Amount:
    if "://" in files.path or "%" in files.path:
        return _UNKNOWN
    size, rows, count = 0, 0, 0
    try:
        for name in find_beneath(root, files.path):
            with open_beneath(root, name) as file:
                size, count = size + os.fstat(file.fileno()).st_size, count + 1
                rows += _rows_in(file, is_parquet=isinstance(files.format, Parquet))
    except (OSError, pa.ArrowInvalid) as error:
        return _Amount(rows=None, size_bytes=size, basis=f"size of {count} files; {error}")
    if not count:
        return _Amount(rows=None, basis=f"`{files.path}` does not exist yet")
    return _Amount(rows=rows, size_bytes=size, basis=f"size of {count} files")


def _rows_in(file: IO[bytes], *, is_parquet: bool) -> int:
    if is_parquet:
        return int(pq.read_metadata(file).num_rows)
    size = os.fstat(file.fileno()).st_size
    sample = file.read(SAMPLE_BYTES)
    lines = sample.count(b"\n")
    return round(size * lines / len(sample)) if lines and len(sample) < size else lines


def _needed(asset: AssetBlueprint, role: str) -> list[AssetRef]:
    return [need.asset for need in asset.needs if need.role == role]


def _seconds(rows: int | None, rows_per_s: float | None) -> float | None:
    if rows is None or not rows_per_s:
        return None
    return round(rows / rows_per_s, 1)
