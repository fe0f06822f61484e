"""Rows in quarantine: list them, show them, and replay those of sources after a fix.

The identity of a source's row is its position in its source, so a replayed row yields the same fact
that it would have yielded at first. A record without a value under its key removes it from the
list. After a crash between the two, the replay is repeated: it yields the same facts.

A row of a pipeline, on which a step failed or which breaks an expectation, is not replayed: the
corrected definition is a new version of its dataset, which is computed from all rows
(docs/decisions/0037). Any row can be discarded: it leaves the list, and nothing else changes.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from narthex._base import NOWHERE, Json, Origin, to_plain
from narthex._ir import ResolvedAsset, SourceJobSpec, parse_position
from narthex.errors import ArgumentsUnfit
from narthex.settings import Settings
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_spark_apps.sources.row_rendering import (
    Arrived,
    PayloadKind,
    RawRowPosition,
    RowRenderer,
)
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.scan import scan
from narthex_spark_apps.sources.topics.typed_records import UnreadableRecordError
from narthex_stores import LogProducer, Record, platform_broker

_NAME_BYTES = 6


@attrs.frozen(kw_only=True)
class PipelineRow:
    """A row of a pipeline: a step failed on it, or it breaks expectations.

    Attributes:
        pipeline: The dataset and the pipeline, such as `Spend.by_user`.
        step: The step that failed, for people; empty for a row that breaks expectations.
        place: The author's file and line; None for a row that breaks expectations.
        row_id: The identity of the row before the step.
        together: The number of rows that failed together; with more than one, it is unknown
            whether this row is at fault.
    """

    pipeline: str
    row_id: str
    step: str = ""
    place: Origin | None = None
    together: int = 1

    @classmethod
    def of(cls, decoded: Mapping[str, Json]) -> "PipelineRow | None":
        """Read the pipeline of a decoded record; None for a row of a source."""
        match decoded:
            case {
                "pipeline": str(pipeline),
                "step": str(step),
                "file": str(file),
                "line": int(line),
                "row_id": str(row_id),
                "together": int(together),
            }:
                place = Origin(file=file, line=line)
                return cls(
                    pipeline=pipeline, step=step, place=place, row_id=row_id, together=together
                )
            case {"pipeline": str(pipeline), "row_id": str(row_id)}:
                return cls(pipeline=pipeline, row_id=row_id)
            case _:
                return None


@attrs.frozen(kw_only=True)
class QuarantinedRow:
    """One row in quarantine.

    Attributes:
        name: Its name for people: twelve letters and digits.
        key: The key of its record: its position in its source, or a hash for a pipeline's row.
        source_id: Its source, or its pipeline.
        rejected_at: When it was rejected, in microseconds.
        payload: The row as JSON, the record's text, or its bytes as base64, depending on `kind`.
        now_us: The value of `now()` for the row.
        expectations: The expectations that it breaks.
        of_pipeline: Its pipeline, for a row of a pipeline.
        offset: The offset of its record in the quarantine.
    """

    name: str
    key: bytes
    offset: int
    rejected_at: int
    source_id: str
    reason: str
    field: str | None
    payload: str
    kind: PayloadKind
    now_us: int
    expectations: tuple[str, ...] = ()
    of_pipeline: PipelineRow | None = None

    @classmethod
    def of(cls, record: Record) -> "QuarantinedRow | None":
        """Read a record of a quarantine; None for a record of another format."""
        key = record.key or b""
        decoded = json.loads(record.value or b"null")
        match decoded:
            case {"payload": str(payload), "reason": str(reason), "source": str(source_id)}:
                return cls(
                    name=hashlib.blake2b(key, digest_size=_NAME_BYTES).hexdigest(),
                    key=key,
                    offset=record.offset,
                    rejected_at=record.timestamp_ms * 1000,
                    source_id=source_id,
                    reason=reason,
                    field=decoded.get("field"),
                    payload=payload,
                    kind=_kind(decoded, payload),
                    now_us=int(decoded.get("now_us", 0)),
                    expectations=tuple(map(str, decoded.get("expectations") or ())),
                    of_pipeline=PipelineRow.of(decoded),
                )
            case _:
                return None

    def place(self) -> RawRowPosition:
        """Return its position in the source; a row of a pipeline has none."""
        at = parse_position(self.key)
        return RawRowPosition(
            partition=at.partition, offset=at.offset, ordinal=at.ordinal, rest=at.rest
        )


def _kind(decoded: Mapping[str, Json], payload: str) -> PayloadKind:
    kind = decoded.get("kind")
    if isinstance(kind, str):
        return PayloadKind(kind)
    # Rows that were rejected before records contained a kind.
    return PayloadKind.ROW if payload.startswith("{") else PayloadKind.TEXT


def quarantined_rows(settings: Settings, topic: str) -> tuple[QuarantinedRow, ...]:
    """Return the rows that are in quarantine, in the order in which they were rejected.

    A row that a repeated run rejected again is listed once.
    """
    found: dict[bytes, QuarantinedRow] = {}
    for record in scan(platform_broker(settings), topic):
        key = record.key or b""
        row = None if record.value is None else QuarantinedRow.of(record)
        if row is None:
            found.pop(key, None)
        elif key not in found:
            found[key] = row
    return tuple(found.values())


def refuse_computed(rows: Iterable[QuarantinedRow]) -> None:
    """Refuse to replay rows of a pipeline.

    Raises:
        ArgumentsUnfit: There is at least one such row.
    """
    computed = [row.of_pipeline for row in rows if row.of_pipeline is not None]
    if computed:
        first = computed[0]
        how = f", in its step {first.step}" if first.step else ""
        raise ArgumentsUnfit(
            f"{len(computed)} of the rows failed in the pipeline `{first.pipeline}`{how}; only "
            "rows that a source rejected can be replayed",
            origin=first.place or NOWHERE,
            hint="correct the definition and raise the version of the dataset: the new version is "
            "computed from all rows",
        )


def discard(
    rows: Sequence[QuarantinedRow], topic: str, producer: LogProducer
) -> tuple["ReplayedRow", ...]:
    """Remove rows from the quarantine.

    Raises:
        StoreError: A record could not be appended.
    """
    for row in rows:
        producer.post(topic, key=row.key, value=None)
    producer.flush()
    return tuple(ReplayedRow(row=row, outcome="discarded") for row in rows)


@attrs.frozen(kw_only=True)
class ReplayedRow:
    """The outcome of a replayed row.

    Attributes:
        outcome: `accepted`, `filtered`, `rejected` or `discarded`.
        reason: Why it is still rejected.
    """

    row: QuarantinedRow
    outcome: str
    reason: str = ""


@attrs.frozen(kw_only=True)
class Replay:
    """The source jobs of one dataset, whose rows are replayed.

    Attributes:
        jobs: The dataset's source jobs.
    """

    jobs: Sequence[ResolvedAsset]
    settings: Settings
    producer: LogProducer

    def run(
        self, rows: Iterable[QuarantinedRow], repaired: Mapping[str, dict[str, Json]] | None = None
    ) -> tuple[ReplayedRow, ...]:
        """Replay rows with the current source definitions; accepted rows leave the quarantine.

        Args:
            rows: Rows of the dataset's quarantine.
            repaired: Replacements for payloads, by the row's name.

        Raises:
            ArgumentsUnfit: A row comes from none of the dataset's sources.
            StoreError: A record could not be appended.
        """
        rows = tuple(rows)
        refuse_computed(rows)
        by_source: dict[str, list[QuarantinedRow]] = {}
        for row in rows:
            by_source.setdefault(row.source_id, []).append(row)
        done: list[ReplayedRow] = []
        for source_id, found in by_source.items():
            done += self._replay(self._job(source_id), source_id, found, repaired or {})
        return tuple(done)

    def _job(self, source_id: str) -> SourceJob:
        for asset in self.jobs:
            spec = asset.spec
            # For a source with many files, each file's path follows the source id.
            if isinstance(spec, SourceJobSpec) and (
                spec.source_id == source_id or source_id.startswith(f"{spec.source_id}#")
            ):
                return SourceJob(asset=asset, spec=spec)
        raise ArgumentsUnfit(
            f"rows in quarantine came from the source `{source_id}`, which no longer exists"
        )

    def _replay(
        self,
        job: SourceJob,
        source_id: str,
        rows: Sequence[QuarantinedRow],
        repaired: Mapping[str, dict[str, Json]],
    ) -> list[ReplayedRow]:
        renderer = RowRenderer.of(
            json.dumps(to_plain(job.spec)),
            source_id=source_id,
            output=job.output,
            quarantine=job.quarantine,
        )
        try:
            arrived = [self._arrived(job, row, repaired.get(row.name)) for row in rows]
            rendered = renderer.render(arrived)
        finally:
            renderer.close()
        done = [_outcome(job, row, made) for row, made in zip(rows, rendered, strict=True)]
        for one, made in zip(done, rendered, strict=True):
            if one.outcome == "accepted":
                for topic, key, value in made:
                    self.producer.post(topic, key=key, value=value)
        self.producer.flush()
        for one in done:
            if one.outcome != "rejected":
                self.producer.post(job.quarantine, key=one.row.key, value=None)
        self.producer.flush()
        return done

    def _arrived(
        self, job: SourceJob, row: QuarantinedRow, repaired: dict[str, Json] | None
    ) -> Arrived:
        place, now_us = row.place(), row.now_us
        if repaired is not None:
            return Arrived(place=place, row=repaired, now_us=now_us)
        match row.kind:
            case PayloadKind.ROW:
                decoded: dict[str, Json] = json.loads(row.payload)
                return Arrived(place=place, row=decoded, now_us=now_us)
            case PayloadKind.TEXT:
                return Arrived(place=place, row=row.payload, now_us=now_us)
            case PayloadKind.BASE64:
                return self._decoded(job, row)

    def _decoded(self, job: SourceJob, row: QuarantinedRow) -> Arrived:
        decoder = job.format(self.settings).open().decoder
        arrived = Arrived(place=row.place(), row=row.payload, now_us=row.now_us, kind=row.kind)
        if decoder is None:
            return arrived
        try:
            return attrs.evolve(arrived, row=decoder.row(base64.b64decode(row.payload)))
        except UnreadableRecordError as error:
            return attrs.evolve(arrived, unreadable=str(error))


def _outcome(job: SourceJob, row: QuarantinedRow, made: tuple[RecordCells, ...]) -> ReplayedRow:
    if not made:
        return ReplayedRow(row=row, outcome="filtered")
    topic, _, value = made[0]
    if topic == job.quarantine:
        return ReplayedRow(row=row, outcome="rejected", reason=str(json.loads(value)["reason"]))
    return ReplayedRow(row=row, outcome="accepted")
