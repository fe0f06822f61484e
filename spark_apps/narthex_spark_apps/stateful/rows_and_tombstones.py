"""The rows and tombstones that a job has emitted to its log: only changes are emitted again."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import attrs

from narthex._formats import key_encoder, key_of
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import (
    TOMBSTONE_TIME,
    Cell,
    Fact,
    LogShape,
    LogSpec,
    NodeSchema,
    PipelineJobSpec,
    RowId,
    Version,
)
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges
from narthex_stores import StateBatch

EmittedRecord = tuple[bytes, bytes]
"""The key and the value of a Kafka record."""

_NO_VERSION = Version(b"")
_OF_LOG = 255
"""The source number of versions that were read from the job's own log; no step has it."""


@attrs.frozen(kw_only=True)
class RowEmitter:
    """Turns row changes into records of the job's log.

    Attributes:
        log: The log.
        places: The position of each column's cell in an element.
        along: The column with the position of contributions on the time axis; None for event time.
    """

    log: LogSpec
    places: Mapping[str, int]
    along: str | None
    _codec: FactCodec = attrs.field(init=False)
    _encode_key: Callable[[tuple[Cell, ...]], bytes] = attrs.field(init=False)
    _keys: tuple[int, ...] = attrs.field(init=False)
    _inputs: tuple[int, ...] = attrs.field(init=False)
    _has_lives: bool = attrs.field(init=False)

    @_codec.default
    def _make_codec(self) -> FactCodec:
        return fact_codec(self.log)

    @_encode_key.default
    def _make_encoder(self) -> Callable[[tuple[Cell, ...]], bytes]:
        return key_encoder(self.log.keys)

    @_keys.default
    def _find_keys(self) -> tuple[int, ...]:
        return tuple(self.places[column.name] for column in self.log.keys)

    @_inputs.default
    def _find_inputs(self) -> tuple[int, ...]:
        return tuple(self.places[column.name] for column in self.log.inputs)

    @_has_lives.default
    def _find_lives(self) -> bool:
        return self.log.lives

    @classmethod
    def of(cls, spec: PipelineJobSpec, schema: NodeSchema) -> "RowEmitter":
        """Return the emitter for the rows of a job's last step."""
        columns = (*schema.keys, *schema.values)
        places = {column.name: at for at, column in enumerate(columns)}
        return cls(log=spec.log, places=places, along=spec.along)

    def records(self, batch: StateBatch, changes: ElementChanges) -> list[EmittedRecord]:
        """Return the records to emit, and mark them as emitted."""
        records: list[EmittedRecord] = []
        doubtful = batch.has_doubts()
        for row_id, element in changes.items():
            identity = self._identity(row_id)
            if doubtful:
                batch.is_sure(identity)
            fact = None if element is None else self._fact(identity, element)
            records += self._emit(batch, identity, fact)
        return records

    def _emit(self, batch: StateBatch, row_id: RowId, fact: Fact | None) -> list[EmittedRecord]:
        now = None if fact is None else self._codec.encode(fact)
        before = batch.set_emitted(row_id, now)
        if before == now:
            return []
        if fact is not None and now is not None:
            return [(self._key(fact), self._codec.with_version(now, Version(batch.version)))]
        return [] if before is None else [self._tombstone(batch, before)]

    def _tombstone(self, batch: StateBatch, before: bytes) -> EmittedRecord:
        fact = attrs.evolve(self._no_more(before), version=Version(batch.version))
        return self._key(fact), self._codec.encode(fact)

    def _key(self, fact: Fact) -> bytes:
        match self.log.shape:
            case LogShape.ROWS:
                return fact.row_id
            case LogShape.KEYED:
                return key_of(fact.row_id)
            case _:
                return self._encode_key(fact.key)

    def _identity(self, row_id: RowId) -> RowId:
        """Return a row's identity with the key's columns in the order of the log."""
        if self.log.shape is not LogShape.KEYED or self._keys == tuple(range(len(self._keys))):
            return row_id
        size = int.from_bytes(row_id[1:5], "big")
        cells = _cut(row_id[5 : 5 + size])
        key = b"".join([cells[at] for at in self._keys])
        return RowId(row_id[:5] + key + row_id[5 + size :])

    def _fact(self, identity: RowId, element: Element) -> Fact | None:
        cells = element.cells
        key = tuple([cells[at] for at in self._keys])
        if None in key:
            # Rows without a group key belong to no group.
            return None
        values: tuple[Cell, ...] = (None,) * len(self.log.values)
        event_time = element.time
        if element.alive:
            values = tuple([cells[at] for at in self._inputs])
            if self._has_lives:
                values = (*values, *(element.life or ()))
            event_time = self._place(element)
        return Fact(
            row_id=identity,
            version=_NO_VERSION,
            event_time=event_time,
            key=key,
            values=values,
            alive=element.alive,
        )

    def _place(self, element: Element) -> int:
        """Return the position of a row on the time axis; the column `along` never has nulls."""
        if self.along is None:
            return element.time
        place = element.cells[self.places[self.along]]
        if not isinstance(place, int):
            raise TypeError(f"`{self.along}` places rows on the time axis, found {place!r}")
        return place

    def _no_more(self, before: bytes) -> Fact:
        """Return the tombstone of a row; a keyed row moves to the end of time."""
        fact = self._codec.decode(before)
        keyed = self.log.shape is LogShape.KEYED
        return attrs.evolve(
            fact,
            event_time=TOMBSTONE_TIME if keyed else fact.event_time,
            values=(None,) * len(fact.values),
            alive=False,
        )

    def remember(self, batch: StateBatch, facts: Iterable[Fact]) -> None:
        """Take over facts of the log that the state lacks, until the state confirms them."""
        for fact in facts:
            if not batch.supersede(_OF_LOG, fact.row_id, fact.version):
                continue
            is_there = fact.alive or (
                self.log.shape is LogShape.KEYED and fact.event_time != TOMBSTONE_TIME
            )
            bare = attrs.evolve(fact, version=_NO_VERSION)
            known = self._codec.encode(bare) if is_there else None
            meant = batch.meant(fact.row_id)
            batch.set_emitted(fact.row_id, known)
            batch.is_sure(fact.row_id)
            if known != meant:
                batch.doubt(fact.row_id, meant)

    def settle(self, batch: StateBatch, most: int) -> list[EmittedRecord]:
        """Emit the state's version of doubtful rows: all input that could confirm them was read."""
        records: list[EmittedRecord] = []
        found = list(islice(batch.doubts(), most))
        for row_id, meant in found:
            batch.is_sure(row_id)
            records += self._emit(
                batch, RowId(row_id), None if meant is None else self._codec.decode(meant)
            )
        if len(found) < most:
            batch.settle()
        return records


def _cut(key: bytes) -> list[bytes]:
    """Split the canonical bytes of a key into its cells: each has a length prefix, a null none."""
    cells: list[bytes] = []
    at = 0
    while at < len(key):
        size = key[at : at + 4]
        end = at + 4 + (0 if size == b"\xff\xff\xff\xff" else int.from_bytes(size, "big"))
        cells.append(key[at:end])
        at = end
    return cells
