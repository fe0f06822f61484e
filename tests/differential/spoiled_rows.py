"""Rows that a source must reject, and the records of the quarantine that they must become.

A row has one fault: a field of a wrong type, out of range or missing, a value that breaks an
enforced expectation, no envelope where one is due, or a text that is not an object. The reasons are
those of `row_parser`, which defines what a source accepts.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from numpy.random import Generator

from narthex._analysis import columns_of
from narthex._base import Json
from narthex._ir import (
    Cdc,
    Column,
    Dataset,
    DataType,
    Fact,
    Optional,
    TypeMapper,
    WebhookEndpoint,
    position,
)
from narthex._ir.facts import Position
from narthex._runtime.ingest import BrokenSourceRow, RejectedRow, RowParser
from narthex_reference.generate import breaking_cell
from narthex_spark_apps.facts.broken_counts import breaks
from narthex_stores import Record
from tests.differential.author_rows import enveloped, row_of_fact

SPOILED: Final = 0.6
"""How many of the sources with rows have spoiled ones, too."""

MOST: Final = 3
"""The greatest number of spoiled rows of a source."""

NO_OBJECT: Final = "the record is not a JSON object"


def _null_item(of: DataType) -> tuple[Json, ...]:
    return () if isinstance(of, Optional) else ([None],)


_MISFITS: Final[TypeMapper[tuple[Json, ...]]] = TypeMapper(
    int=("seven", 1.5, True, 2**63, -(2**63) - 1),
    float=("much", True, [0.5]),
    bool=("perhaps", 2),
    str=(7, "half \ud800 a character", ["a"]),
    bytes=(7, "not base64"),
    datetime=("never", True, "12024-01-01T00:00:00Z"),
    date=("2024-13-01", True, 10**7),
    decimal=lambda of: ("some", True, "1e29", f"0.{'1' * (of.scale + 1)}"),
    list=lambda of, item: ("none", *([wrong] for wrong in item), *_null_item(of.of)),
    map=lambda _, entry: ("none", *({"a": wrong} for wrong in entry)),
    embedding=lambda _, item: ("none", *([wrong] for wrong in item)),
    struct=lambda _, __: ("none", 7),
    null=lambda: (7,),
)
"""Values that no column of a type can have: of another type, and out of its range."""

_NO_ENVELOPES: Final[tuple[dict[str, Json], ...]] = (
    {"after": {}},
    {"op": "u", "before": {}},
    {"op": "d", "after": {}},
    {"op": "t"},
    {"op": "c", "after": "{"},
)
_NO_OBJECTS: Final = (b"7", b'"a"', b"null", b"[{}]")
_NO_JSON: Final = (b'{"at": ', b"\xff\xfe{}", b"{'at': 1}")


@attrs.frozen(kw_only=True)
class SpoiledRow:
    """A row that its source must reject.

    Attributes:
        dataset: The dataset of the source.
        after: The number of facts of the dataset whose rows are sent before it.
        text: The row in JSON, or bytes that are not an object.
        field: The field with the error, `op` for a row without an envelope; None for a text.
    """

    dataset: str
    after: int
    text: bytes
    field: str | None = None

    @property
    def row(self) -> dict[str, Json] | None:
        """The object; None where there is none."""
        found = None if self.field is None else json.loads(self.text)
        return found if isinstance(found, dict) else None


def spoiled_rows(dataset: Dataset, facts: Sequence[Fact], rng: Generator) -> tuple[SpoiledRow, ...]:
    """Return the rows of a source that it must reject; none if it has no facts to spoil."""
    alive = [fact for fact in facts if fact.alive]
    if not alive or rng.random() >= SPOILED:
        return ()
    return tuple(
        _spoiled(dataset, alive[int(rng.integers(len(alive)))], len(facts), rng)
        for _ in range(int(rng.integers(1, MOST + 1)))
    )


def _spoiled(dataset: Dataset, fact: Fact, count: int, rng: Generator) -> SpoiledRow:
    (source,) = dataset.sources
    after = int(rng.integers(count + 1))
    row = row_of_fact(fact, dataset.schema)
    faults: list[tuple[object, str | None]] = []
    match rng.integers(4):
        case 0 | 1 if dataset.enforced:
            (name,) = columns_of(dataset.enforced[0])
            broken = {**row, name: breaking_cell(dataset.schema.columns[name])}
            faults.append((enveloped(broken, source.cdc), name))
        case 0:
            faults += [(text, None) for text in _NO_OBJECTS]
            # A call with such a text has no other rows; the server never writes one.
            is_call = isinstance(source.connector, WebhookEndpoint)
            faults += [] if is_call else [(text, None) for text in _NO_JSON]
        case 1 if source.cdc is Cdc.DEBEZIUM:
            faults += [(envelope, "op") for envelope in _NO_ENVELOPES]
        case _:
            of = dataset.schema.fields[int(rng.integers(len(dataset.schema.fields)))]
            wrongs = _changed(row, Column(of.name, of.type))
            faults += [(enveloped(wrong, source.cdc), of.name) for wrong in wrongs]
    content, field = faults[int(rng.integers(len(faults)))]
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return SpoiledRow(dataset=dataset.name, after=after, text=text, field=field)


def _changed(row: Mapping[str, Json], column: Column) -> list[dict[str, Json]]:
    """Return the rows in which one field does not fit its column."""
    changed = [{**row, column.name: value} for value in _MISFITS(column.type)]
    if not isinstance(column.type, Optional):
        others = {name: value for name, value in row.items() if name != column.name}
        # As often as all other faults of the field together.
        changed += [{**others, column.name: None}, others] * (len(changed) // 2)
    return changed


@attrs.frozen(kw_only=True)
class Rejection:
    """The record of the quarantine that a row must become.

    Attributes:
        payload: The row in the form in which JSON is compared, or the text of the record.
    """

    place: Position
    field: str | None
    reason: str
    payload: str

    @classmethod
    def of(cls, spoiled: SpoiledRow, place: Position, dataset: Dataset) -> "Rejection":
        """Return the rejection of a spoiled row.

        Raises:
            TypeError: A source must accept the row.
        """
        row = spoiled.row
        if row is None:
            text = spoiled.text.decode(errors="replace")
            return cls(place=place, field=None, reason=NO_OBJECT, payload=text)
        (source,) = dataset.sources
        match RowParser.of(source, dataset.schema, dataset.enforced).parse_row(row, now_us=0):
            case RejectedRow(problems=problems):
                reason, field = "; ".join(map(str, problems)), problems[0].field
            case BrokenSourceRow(broken=broken):
                reason, field = breaks([one.title for one in broken]), columns_of(broken[0])[0]
            case outcome:
                raise TypeError(f"{row} must be rejected; found {outcome}")
        return cls(place=place, field=field, reason=reason, payload=_comparable(row))

    @property
    def key(self) -> bytes:
        """The key of its record: the position of the row."""
        at = self.place
        return position(at.source_id, at.partition, at.offset, at.ordinal, at.rest)


def wrong_rejections(
    dataset: str, rejections: Sequence[Rejection], records: Sequence[Record]
) -> str | None:
    """Say how the quarantine of a source differs from its rejections; None where it does not.

    A record may be there twice: a source that crashed rejects the row again.
    """
    wanted = {one.key: one for one in rejections}
    found = {one.key: one for one in map(_rejection_in, records)}
    for key in wanted.keys() | found.keys():
        if wanted.get(key) != found.get(key):
            return (
                f"the quarantine of `{dataset}` has {found.get(key)}\n  but means {wanted.get(key)}"
            )
    strays = [record.key for record in records if record.key not in wanted]
    return f"the quarantine of `{dataset}` has the keys {strays}" if strays else None


def _rejection_in(record: Record) -> Rejection:
    described = json.loads(record.value or b"")
    payload = described["payload"]
    return Rejection(
        place=Position(
            source_id=described["source"],
            partition=described["partition"],
            offset=described["offset"],
            ordinal=described["ordinal"],
        ),
        field=described["field"],
        reason=described["reason"],
        payload=_comparable(json.loads(payload)) if described["kind"] == "row" else payload,
    )


def _comparable(row: Json) -> str:
    return json.dumps(row, sort_keys=True)
