# mypy: disable-error-code="arg-type,misc"
"""Kernels on Spark's executors, for histories that exceed the memory of a driver.

Keys are divided into buckets by their hash. A first stage reads the history file by file and yields
its states by bucket, as one Arrow stream for each bucket and chunk: Spark moves few large cells and
no rows. A second stage has the states and the questions of one bucket in memory, and calls the
kernel with them. The driver has the questions and the answers, and no state.

States that cannot be in an answer are not moved: those whose key is not asked for, those after the
greatest instant, and those too old to be seen.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from narthex._columnar_query import EVENT_TIME, key_name
from narthex._ir import Column, DatasetPlan, IndexSpec, LogShape
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.kernel import (
    AskedKeys,
    InexactError,
    Kernel,
    MissingVersionsError,
    stored_keys,
)
from narthex_spark_apps.offline.lookup_jobs import history_frame
from narthex_spark_apps.offline.pins import PinnedDataset, scan_states
from narthex_spark_apps.offline.watermarks import newest_rows
from narthex_stores import fact_schema, storage_options

BUCKET_BYTES: Final = 64 << 20
"""The size of a bucket, questions and states with their versions: to answer one takes up to four
times as much. A key has one bucket, however many states it has."""

_CHUNK_BYTES: Final = 8 << 20
"""The size of the states that are divided together, with their versions: they are copied twice."""

_SLOTS: Final = 1 << 22
"""The keys that are asked for are a bitmap of so many hashes: with a million keys, a fifth of the
states of other keys is moved, too."""

_PROBE: Final = pl.DataFrame({"text": ["probe"], "number": [1]})
_BUCKET, _HASH = "bucket", "hash"
_PIECES: Final = "bucket int, states binary, questions binary"
"""A part of the states or of the questions of a bucket, as an Arrow stream; the other is null."""

_ARROW_PIECES: Final = pa.schema(
    [(_BUCKET, pa.int32()), ("states", pa.binary()), ("questions", pa.binary())]
)
_SIDES: Final = ("states", "questions")
_ANSWERS: Final = "bucket int, answers binary"
"""The rows that were found, as an Arrow stream; null if there are no exact answers, or none without
the versions of states."""

_ARROW_ANSWERS: Final = pa.schema([(_BUCKET, pa.int32()), ("answers", pa.binary())])


@attrs.frozen(kw_only=True)
class _BucketJob:
    """The parameters of a job that the workers need.

    Attributes:
        files: The files of the history.
        limits: The offsets that states have to be below; None for all.
        versioned: Whether states have row ids and versions.
        oldest: The least event time of a state that can be an answer; None for any.
        latest: The greatest one.
        newest: The greatest event time of a row of the dataset.
        buckets: The number of buckets.
        chunk: The number of states that are divided together.
        slots: The hashes of the keys that are asked for, as a packed bitmap.
        probe: The hash of `_PROBE`, which must be the same on all machines.
    """

    kernel: type[Kernel]
    spec: IndexSpec
    take: tuple[Column, ...]
    files: tuple[str, ...]
    limits: ReplayLimit | None
    versioned: bool
    oldest: int | None
    latest: int | None
    newest: int | None
    buckets: int
    chunk: int
    slots: bytes = b""
    probe: int = attrs.field(factory=lambda: int(_PROBE.hash_rows()[0]))

    def chunks(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Read the states of files that can be answers, with any keys."""
        files = [self.files[place] for place in places]
        states = scan_states(files, self.limits, storage=storage_options(os.environ))
        if self.oldest is not None:
            states = states.filter(pl.col(EVENT_TIME) >= self.oldest)
        if self.latest is not None:
            states = states.filter(pl.col(EVENT_TIME) <= self.latest)
        columns = self.kernel.columns(self.spec, self.take, versioned=self.versioned)
        yield from states.select(columns).collect_batches(
            chunk_size=self.chunk, maintain_order=False
        )

    def divide(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the states of files by bucket, those of keys that are asked for.

        Raises:
            RuntimeError: This machine has other hashes than the driver.
        """
        if _PROBE.hash_rows()[0] != self.probe:
            raise RuntimeError("the executors and the driver have different versions of Polars")
        is_asked = np.unpackbits(np.frombuffer(self.slots, np.uint8)).view(np.bool_)
        for batch in batches:
            for states in self.chunks(batch.column("id").to_pylist()):
                hashes = pl.DataFrame(stored_keys(self.spec, states)).hash_rows()
                wanted = pl.Series(is_asked[hashes.to_numpy() % _SLOTS])
                yield self.pieces(hashes.filter(wanted), states.filter(wanted), "states")

    def pieces(self, hashes: pl.Series, rows: pl.DataFrame, side: str) -> pa.RecordBatch:
        """Divide rows into pieces of buckets: of the side `states` or `questions`."""
        parts = rows.with_columns(_bucket(hashes, self.buckets)).partition_by(
            _BUCKET, as_dict=True, include_key=False
        )
        packed = pa.array([_packed(part) for part in parts.values()], pa.binary())
        columns = {
            name: packed if name == side else pa.nulls(len(packed), pa.binary()) for name in _SIDES
        }
        return pa.record_batch(
            [pa.array([bucket for (bucket,) in parts], pa.int32()), *columns.values()],
            schema=_ARROW_PIECES,
        )

    def join(self, pieces: pa.Table) -> pa.Table:
        """Answer the questions of a bucket from all its pieces."""
        bucket = pieces.column(_BUCKET)[:1]
        states, asked = (pieces.column(name).drop_null().to_pylist() for name in _SIDES)
        if not states or not asked:
            return _ARROW_ANSWERS.empty_table()
        try:
            known = self.kernel.of(self.spec, _unpacked(states))
            found = known.answers(_unpacked(asked), self.take, newest=self.newest)
        except (MissingVersionsError, InexactError):
            return pa.table([bucket, pa.nulls(1, pa.binary())], schema=_ARROW_ANSWERS)
        return pa.table([bucket, pa.array([_packed(found)], pa.binary())], schema=_ARROW_ANSWERS)


def is_divisible(plan: DatasetPlan) -> bool:
    """Return whether all states of a row have its key, so that they are in one bucket."""
    return plan.log.shape is LogShape.KEYED or not plan.correctable


def look_up_on_executors(
    session: SparkSession,
    kernel: type[Kernel],
    pinned: PinnedDataset,
    limits: ReplayLimit,
    asked: AskedKeys,
) -> pl.DataFrame:
    """Look up keys at instants, as `kernel.look_up_in_memory`, by a Spark job.

    A second job reads the versions of states for the buckets that need them.

    Args:
        session: The Spark session.
        kernel: A kernel that answers lookups of the dataset.
        pinned: The dataset; `is_divisible` accepts it.
        limits: The offsets to read it at.
        asked: The keys.

    Raises:
        InexactError: An answer would not be exact.
    """
    spec = pinned.dataset.plan.index
    questions = asked.questions(spec)
    found = [_nothing(kernel, pinned, questions, asked.take)]
    if questions.height and pinned.history.files:
        job = _job_of(session, kernel, pinned, limits, asked)
        hashes = questions.select(map(key_name, spec.log.keys)).hash_rows()
        hashed = questions.with_columns(hashes.alias(_HASH))
        answers = _run(session, job, hashed)
        unanswered = [bucket for bucket, answer in answers.items() if answer is None]
        if unanswered:
            again = hashed.filter(_bucket(hashes, job.buckets).is_in(unanswered))
            answers |= _run(session, attrs.evolve(job, versioned=True), again)
            if None in answers.values():
                raise InexactError(f"`{pinned.dataset.plan.name}` has values without exact answers")
        found += [_unpacked([answer]) for answer in answers.values() if answer is not None]
    return asked.in_order(pl.concat(found))


def _nothing(
    kernel: type[Kernel], pinned: PinnedDataset, questions: pl.DataFrame, take: Sequence[Column]
) -> pl.DataFrame:
    """Return the answers of no states."""
    spec = pinned.dataset.plan.index
    stored = pl.DataFrame(pl.from_arrow(fact_schema(spec.log).empty_table()))
    states = kernel.of(spec, stored.select(kernel.columns(spec, take, versioned=False)))
    return states.answers(questions.clear(), take, newest=None)


def _job_of(
    session: SparkSession,
    kernel: type[Kernel],
    pinned: PinnedDataset,
    limits: ReplayLimit,
    asked: AskedKeys,
) -> _BucketJob:
    spec = pinned.dataset.plan.index
    newest = None
    if spec.history_us is not None:
        newest = newest_rows(history_frame(session, pinned), spec, {limits}).get(limits)
    size = pinned.bytes_in_memory(kernel.columns(spec, asked.take, versioned=True))
    oldest, latest = (None, None) if spec.correctable else _span(spec, asked.as_of, newest)
    of_keys = asked.keys.estimated_size() + asked.as_of.estimated_size()
    return _BucketJob(
        kernel=kernel,
        spec=spec,
        take=tuple(asked.take),
        files=pinned.history.files,
        limits=pinned.below(limits),
        versioned=spec.correctable,
        oldest=oldest,
        latest=latest,
        newest=newest,
        buckets=math.ceil((size + of_keys) / BUCKET_BYTES),
        chunk=math.ceil(_CHUNK_BYTES * pinned.history.states / max(size, 1)),
    )


def _span(spec: IndexSpec, as_of: pl.Series, newest: int | None) -> tuple[int | None, int]:
    """Return the event times between which the answers of a dataset without retractions are."""
    ordered = as_of.sort()
    first, last = int(ordered[0]), int(ordered[-1])
    if spec.history_us is None or newest is None:
        return None, last
    return min(first, newest - spec.disorder_us) - spec.history_us, last


def _run(session: SparkSession, job: _BucketJob, asked: pl.DataFrame) -> dict[int, bytes | None]:
    """Run a job; return the answers of each bucket that has states and questions."""
    job = attrs.evolve(job, slots=_slots(asked[_HASH]))
    tasks = session.sparkContext.defaultParallelism
    files = session.range(0, len(job.files), 1, min(tasks, len(job.files)))
    pieces = pa.Table.from_batches([job.pieces(asked[_HASH], asked.drop(_HASH), "questions")])
    states = files.mapInArrow(job.divide, _PIECES)
    buckets = states.union(session.createDataFrame(pieces)).repartitionById(
        min(tasks, job.buckets), _BUCKET
    )

    # A method would count as a function of a key and its pieces.
    def join(pieces: pa.Table) -> pa.Table:
        return job.join(pieces)

    answers = buckets.groupBy(_BUCKET).applyInArrow(join, _ANSWERS)
    return {row[_BUCKET]: row["answers"] for row in answers.toArrow().to_pylist()}


def _bucket(hashes: pl.Series, buckets: int) -> pl.Series:
    """Return the bucket of each hash; it does not depend on the slot."""
    return ((hashes // _SLOTS) % buckets).cast(pl.Int32).alias(_BUCKET)


def _slots(hashes: pl.Series) -> bytes:
    is_asked = np.zeros(_SLOTS, np.bool_)
    is_asked[hashes.to_numpy() % _SLOTS] = True
    return np.packbits(is_asked).tobytes()


def _packed(rows: pl.DataFrame) -> bytes:
    # In Arrow's oldest form, texts are stored for these rows only and not for all of their chunk.
    stream = rows.write_ipc_stream(None, compression="lz4", compat_level=pl.CompatLevel.oldest())
    return stream.getvalue()


def _unpacked(streams: Iterable[bytes]) -> pl.DataFrame:
    return pl.concat([pl.read_ipc_stream(stream) for stream in streams])
