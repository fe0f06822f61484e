"""Sinks that run live and are interrupted at random, and what their targets have at the end."""

import shutil
from collections.abc import Iterable, Mapping, Sequence

import attrs
import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from numpy.random import Generator
from typing_extensions import override

from narthex._base import Json
from narthex._formats import parse_cell
from narthex._ir.assets import ResolvedAsset, SinkJobSpec
from narthex._ir.facts import Cell, Fact
from narthex._ir.schema import Schema
from narthex.settings import Settings
from narthex_reference.cell_equality import same_cells
from narthex_spark_apps.jobs.stage_offsets import StagePositions, group_of
from narthex_spark_apps.jobs.start import checkpoint_of, input_topics
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_spark_apps.sinks.sink_stage import SinkStage, WrittenPositions
from narthex_stores import LogReader, PartitionKey
from tests.differential.beside_spark import CrashError, some
from tests.differential.records import Records

TELLS, CRASHES, LOSES_STATE = 0.4, 0.1, 0.05
"""How often a sink writes after it took records; how often it crashes then, also without state."""

_POLL_S = 0.2
_MANY = 10_000


@attrs.frozen
class CrashingPositions(WrittenPositions):
    """The positions of a process that ends when its target has the changes, before it notes so."""

    whole: WrittenPositions

    @override
    def load(self, places: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        return self.whole.load(places)

    @override
    def keep(self, positions: Mapping[PartitionKey, int]) -> None:
        raise CrashError


@attrs.define(kw_only=True)
class LiveSink:
    """One sink, in a process that may crash; its positions are committed offsets of its group.

    Attributes:
        at: The offsets that this run has read.
    """

    asset: ResolvedAsset
    settings: Settings
    at: dict[PartitionKey, int] = attrs.field(factory=dict)
    lives: int = 0
    _stage: SinkStage | None = None
    _reader: LogReader | None = None

    @property
    def spec(self) -> SinkJobSpec:
        """Return what it writes."""
        if not isinstance(self.asset.spec, SinkJobSpec):
            raise TypeError(f"asset {self.asset.asset_id} is not a sink")
        return self.asset.spec

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic that it reads."""
        return input_topics(self.asset)

    @property
    def has_written(self) -> bool:
        """Whether its target has the changes of all records that it has read."""
        return self._stage is not None and not self._stage.pending

    def take(self, records: Records, rng: Generator | None) -> None:
        """Work off some of what was not read yet, and perhaps write; all of it without chance."""
        stage = self._started(records)
        places = records.places(self.topics)
        unread = [place for place in places if self.at.get(place, 0) < len(records.kept[place])]
        found = some(records, unread, self.at, rng)
        if found:
            stage.take(found)
        for record in found:
            self.at[record.topic, record.partition] = record.offset + 1
        if stage.pending and (rng is None or rng.random() < TELLS):
            stage.tell()

    def end_by_chance(self, rng: Generator) -> str | None:
        """Crash at times, with or without the state; return how, or None."""
        drawn = rng.random()
        if self._stage is None or drawn >= CRASHES + LOSES_STATE:
            return None
        if self._stage.pending and drawn < CRASHES / 2:
            self._stage.written = CrashingPositions(self._stage.written)
            try:
                self._stage.tell()
            except CrashError:
                self.close()
                return "crashed after the target had the changes"
        self.close()
        if drawn < CRASHES:
            return "crashed"
        shutil.rmtree(checkpoint_of(self.asset, self.settings) / "sink", ignore_errors=True)
        return "lost their state"

    def _started(self, records: Records) -> SinkStage:
        if self._stage is None:
            self._reader = LogReader(self.settings.kafka, group=group_of(self.asset))
            self.lives += 1
            written = StagePositions(self._reader.group_offsets, epoch=self.lives)
            opened = open_sink(self.asset, self.settings, written=written, epoch=self.lives)
            if opened is None:
                raise TypeError("the job of a sink is one")
            self._stage = opened
            self.at = opened.resume(dict.fromkeys(records.places(self.topics), 0))
        return self._stage

    def close(self) -> None:
        """End without writing: what was not written is written by the next run."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


TargetRows = Mapping[str, Mapping[bytes, dict[str, Json]]]
"""For each topic the current row of each key; a deleted row is missing."""


def rows_of_targets(bootstrap: str, topics: Sequence[str], *, partitions: int) -> TargetRows:
    """Read what sinks wrote: for each key its newest record, as a compacted topic keeps it.

    Raises:
        KafkaException: The broker does not answer.
    """
    rows: dict[str, dict[bytes, dict[str, Json]]] = {topic: {} for topic in topics}
    left = {(topic, partition) for topic in topics for partition in range(partitions)}
    if not left:
        return rows
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "fuzz-spark",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in sorted(left)])
    try:
        while left:
            for message in consumer.consume(_MANY, timeout=_POLL_S):
                error = message.error()
                if error is None:
                    _take(rows[str(message.topic())], message.key() or b"", message.value())
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its only name)
                    left.discard((str(message.topic()), int(message.partition() or 0)))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return rows


def _take(rows: dict[bytes, dict[str, Json]], key: bytes, value: bytes | None) -> None:
    envelope = None if value is None else msgspec.json.decode(value)
    if envelope is None or envelope["op"] == "d":
        rows.pop(key, None)
    else:
        rows[key] = envelope["after"]


def wrong_rows(schema: Schema, means: Sequence[Fact], rows: Mapping[bytes, Json]) -> str | None:
    """Say how the rows of a target differ from the current rows of a dataset; None if they agree.

    Args:
        schema: The schema of the dataset.
        means: The facts of the dataset.
        rows: The rows of the target.
    """
    wanted = sorted(_current(schema, means), key=repr)
    found = sorted((_cells(schema, row) for row in rows.values()), key=repr)
    if len(wanted) == len(found) and all(map(same_cells, wanted, found)):
        return None
    return f"the target has {found}\n  but means {wanted}"


def _current(schema: Schema, means: Sequence[Fact]) -> list[tuple[Cell, ...]]:
    """Return the current rows: of a keyed dataset the newest of each key."""
    newest: dict[str, Fact] = {}
    for number, fact in enumerate(means):
        # Facts come in the order of event times, and an identity has one.
        newest[repr(fact.key) if schema.keys else str(number)] = fact
    return [(*f.key, f.event_time, *f.values) for f in newest.values() if f.alive]


def _cells(schema: Schema, row: Json) -> tuple[Cell, ...]:
    if not isinstance(row, dict):
        raise TypeError(f"{row!r} is not a row")
    types = {field.name: field.type for field in schema.fields}
    names = [column.name for column in schema.keys]
    names += [schema.timestamp, *(column.name for column in schema.values)]
    return tuple(parse_cell(row[name], types[name]) for name in names)
