"""Every codec, evaluator, renderer and store can represent the rows that `/log` accepts."""

import datetime as dt
import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narthex._base.json_depth import GREATEST_DEPTH
from narthex._base.records import Json, to_plain
from narthex._base.times import FIRST_INSTANT, LAST_INSTANT, render_instant
from narthex._formats.arrow import array_of, cells_of
from narthex._formats.avro.codec import fact_codec
from narthex._formats.cells import cell_bytes
from narthex._formats.json_cells import parse_cell, render_cell
from narthex._ir.assets import IndexSpec, LogShape, LogSpec, SourceJobSpec, Trigger
from narthex._ir.entities import Cdc, Source, WebhookEndpoint
from narthex._ir.facts import Fact
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
)
from narthex._runtime.ingest.row_parser import ParsedRow, RejectedRow, RowParser
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.sources.row_rendering import Arrived, RawRowPosition, RowRenderer
from narthex_spark_apps.sources.topics.records import TopicFormat, TopicReader
from narthex_stores import GREATEST_RECORD_BYTES, column_reader
from narthex_stores.facts.tables import LogRow, to_rows, to_table
from narthex_stores.history.newest_rows import render_fact
from narthex_stores.indexes.key_layout import IndexLayout, unpack

LMDB_KEY_BYTES = 511

FLAT: list[DataType] = [Int(), Float(), Bool(), Str(), Bytes(), Datetime(), Date()]
SCALARS: list[DataType] = [*FLAT, Decimal(0), Decimal(2), Decimal(28)]
KEYS: list[DataType] = [Int(), Bool(), Str(), Bytes(), Datetime(), Date(), Decimal(2)]

types = st.recursive(
    st.sampled_from([*SCALARS, Embedding(2), Between(Int(), -5, 5)]),
    lambda inner: (
        inner.map(List)
        | inner.map(Map)
        | inner.filter(lambda of: not isinstance(of, Optional)).map(Optional)
        | st.tuples(inner, inner).map(
            lambda two: Struct("", (StructField("a", two[0]), StructField("b", two[1])))
        )
    ),
    max_leaves=3,
)

texts = st.one_of(
    st.text(max_size=6),
    st.text(st.characters(codec=None, categories=["Cs", "Cc", "Lu"]), max_size=3),
    st.sampled_from(
        [
            *("", "\0", "a\0b", "é", "e\u0301", "x" * 70_000, "\ud800", "😀", "AAAA", "A==="),
            *("0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00", "2024-02-29T24:00:00Z"),
            *("9999-12-31T23:59:59.999999-14:00", "1e-500", "1e-999999999", "1e999999999"),
            *("1" * 28, "9" * 29, "1" * 5000, "0.0000001", "1." + "0" * 500 + "1", "1.0"),
            *("NaN", "-inf", "Infinity", " 12 ", "true"),
        ]
    ),
)
numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**66), 2**66),
    st.sampled_from([2**31, -(2**31) - 1, 2**63, -(2**63), 2**63 - 1, 10**28, 10**27, 10**400])
    | st.sampled_from([2_932_896, 2_932_897, -719_162, -719_163]),
    st.floats(),
    st.sampled_from([1e308, 5e-324, -0.0, 1e22, 253402300799.0, 253402300800.0, -62135596801.0]),
)
raw: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


@cache
def likely(of: DataType) -> "st.SearchStrategy[Json]":
    """Choose among what a client may send for a type, at the edges of what is right."""
    match of:
        case Optional(of=inner):
            return st.none() | likely(inner)
        case List(of=item):
            return st.lists(likely(item), max_size=3)
        case Map(of=item):
            return st.dictionaries(texts, likely(item), max_size=3)
        case Struct(fields=fields):
            return st.fixed_dictionaries({field.name: likely(field.type) for field in fields})
        case Embedding(size=size):
            return st.lists(numbers, min_size=size, max_size=size)
        case Bool():
            return st.booleans() | numbers
        case Str() | Bytes():
            return texts
        case _:
            return numbers | texts


def schema_of(value: DataType, key: DataType | None) -> Schema:
    fields = (
        Field(name="v", type=value),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
    return Schema((Field(name="k", type=key, role=Role.KEY), *fields) if key else fields)


@cache
def log_of(schema: Schema) -> LogSpec:
    shape = LogShape.KEYED if schema.keys else LogShape.ROWS
    return LogSpec(shape=shape, keys=schema.keys, values=schema.values, time_field="at")


def job_of(schema: Schema) -> SourceJobSpec:
    source = Source(
        connector=WebhookEndpoint(webhook="w", endpoint="e"),
        disorder_us=0,
        cdc=Cdc.UPSERT if schema.keys else Cdc.APPEND,
    )
    return SourceJobSpec(
        dataset="D",
        source_id="s",
        source=source,
        schema=schema,
        log=log_of(schema),
        trigger=Trigger.REAL_TIME,
        reason="test",
    )


@cache
def renderer_of(schema: Schema) -> RowRenderer:
    return RowRenderer.of(
        json.dumps(to_plain(job_of(schema))), source_id="", output="log", quarantine="refused"
    )


def reader(*, calls: bool) -> TopicReader:
    secrets = AuthorSecrets(home=Path(), mounted="", policy_file=Path())
    return TopicFormat(calls=calls, envelopes=False, secrets=secrets).open()


def hold_everywhere(schema: Schema, row: Mapping[str, Json]) -> bool:
    """Take a row as the server does; if it accepts it, everything else must hold it."""
    sent = json.loads(json.dumps(row))
    renderer = renderer_of(schema)
    admission = renderer.row_parser.parse_row(sent, now_us=0)
    assert isinstance(admission, ParsedRow | RejectedRow)
    if isinstance(admission, RejectedRow):
        json.dumps([str(problem) for problem in admission.problems], ensure_ascii=False).encode()
        return False
    record = json.dumps({"rows": [sent]}).encode()
    format_ = TopicFormat(
        calls=True,
        envelopes=False,
        secrets=AuthorSecrets(home=Path(), mounted="", policy_file=Path()),
    )
    (arrived,) = format_.open().rows(record, place=RawRowPosition(), now_us=0)
    ((made,),) = renderer.render([arrived])
    assert made[0] == "log", json.loads(made[2])["reason"]
    fact = fact_codec(log_of(schema)).decode(made[2])
    assert fact.key + fact.values == tuple(admission.cells[c.name] for c in _columns(schema))
    hold_in_stores(log_of(schema), fact, made[2])
    for column in (*_columns(schema), *schema.fields[-1:]):
        hold_in_engines(admission.cells[column.name], column.type)
    json.dumps(render_fact(log_of(schema), fact), ensure_ascii=False, allow_nan=False).encode()
    return True


def _columns(schema: Schema) -> tuple[Any, ...]:
    return (*schema.keys, *schema.values)


def hold_in_stores(log: LogSpec, fact: Fact, datum: bytes) -> None:
    """The facts by columns, the index and the history."""
    columns = column_reader(log)
    if columns is not None:
        assert columns.read([datum]).fact(0) == fact
    table = to_table(log, [LogRow(0, 0, fact)])
    kept = io.BytesIO()
    pq.write_table(table, kept)
    assert to_rows(log, pq.read_table(kept, schema=table.schema)) == [LogRow(0, 0, fact)]
    if log.shape is LogShape.KEYED:
        layout = IndexLayout(spec=IndexSpec(log=log))
        assert len(layout.locate(fact)[0]) <= LMDB_KEY_BYTES
        assert layout.cells(unpack(layout.fact_value(fact))) == fact.values


def hold_in_engines(cell: Any, of: DataType) -> None:
    """Authors' code, identities and answers."""
    assert cells_of(array_of([cell, cell], of), of) == [cell, cell]
    assert cell_bytes(of)(cell)
    rendered = json.dumps(render_cell(cell, of), ensure_ascii=False, allow_nan=False)
    assert parse_cell(json.loads(rendered.encode()), of) == cell


@given(st.data())
def test_accepted_rows_fit_every_store(data: st.DataObject) -> None:
    of = data.draw(types)
    key = data.draw(st.none() | st.sampled_from(KEYS))
    row = {
        "k": data.draw(likely(key) if key else st.just(None)),
        "v": data.draw(likely(of) | raw),
        "at": data.draw(st.just("2024-05-01T00:00:00Z") | numbers | texts),
        "unasked": data.draw(raw),
    }

    hold_everywhere(schema_of(of, key), row)


@given(st.sampled_from(SCALARS), st.data())
@example(Date(), None)
def test_a_scalar_that_is_accepted_is_held_as_key_and_as_value(
    of: DataType, data: st.DataObject | None
) -> None:
    value = 2**31 if data is None else data.draw(likely(of))
    key = of if of in KEYS else None

    hold_everywhere(schema_of(of, key), {"k": value, "v": value, "at": "2024-05-01"})


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (Date(), 2**31),
        (Date(), 2_932_897),
        (Date(), -719_163),
        (Map(Int()), {"\ud800": 1}),
        (List(Map(Str())), [{"a": "\udfff"}]),
        (Struct("", (StructField("a", Str()),)), {"a": "\ud800"}),
        (Datetime(), 3 * 10**20),
        (Datetime(), "0001-01-01T00:00:00+14:00"),
        (Datetime(), 10**21),
        (Int(), "1" * 5000),
        (Decimal(2), "1e-500"),
        (Decimal(2), "1." + "0" * 500 + "1"),
        (Decimal(2), 10**26),
    ],
)
def test_rows_that_some_engine_cannot_represent_are_refused_with_a_reason(
    of: DataType, value: Json
) -> None:
    row = {"v": value, "at": 0}

    found = RowParser.of(job_of(schema_of(of, None)).source, schema_of(of, None)).parse_row(
        row, now_us=0
    )

    assert isinstance(found, RejectedRow)
    (problem,) = found.problems
    assert problem.field == "v"
    assert len(problem.reason) < 200


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (Date(), 2_932_896),
        (Date(), "0001-01-01"),
        (Datetime(), "9999-12-31T23:59:59.999999Z"),
        (Str(), "a\0b"),
        (Str(), "x" * 1_000_000),
        (Bytes(), ""),
        (Map(Str()), {"": "\0", "\0": ""}),
        (Decimal(2), "9" * 26 + ".99"),
    ],
)
def test_rows_that_every_engine_can_represent_are_accepted(of: DataType, value: Json) -> None:
    key = of if of in KEYS else None

    assert hold_everywhere(schema_of(of, key), {"k": value, "v": value, "at": 0})


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_instant_of_any_year_is_rendered(instant: int) -> None:
    text = render_instant(instant)

    assert text.endswith("Z")
    if FIRST_INSTANT <= instant <= LAST_INSTANT:
        found = dt.datetime.fromisoformat(text)
        assert parse_cell(text, Datetime()) == instant
        assert found.tzinfo is not None
    else:
        assert text[0] in "+-"
        assert json.dumps(render_cell(instant, Datetime()))


@pytest.mark.parametrize("days", [-(2**31), -719_163, 2_932_897, 2**31 - 1])
def test_a_day_that_code_computed_is_rendered(days: int) -> None:
    assert str(render_cell(days, Date()))[0] in "+-"


def arrived(row: Json, offset: int = 0) -> Arrived:
    assert isinstance(row, dict)
    return Arrived(place=RawRowPosition(offset=offset), row=row, now_us=0)


def test_a_row_that_no_fact_can_hold_is_set_aside_and_the_others_pass() -> None:
    """The type check is left out, as if it had accepted what the codec refuses."""
    schema = schema_of(Date(), Str())
    renderer = RowRenderer.of(
        json.dumps(to_plain(job_of(schema))), source_id="", output="log", quarantine="refused"
    )
    trusting = AcceptsEveryRow(cells={"k": "a", "v": 2**31, "at": 0})
    renderer.row_parser = trusting  # type: ignore[assignment]

    good, bad = {"k": "a", "v": 1, "at": 0}, {}
    made = renderer.render([arrived(good, 0), arrived(bad, 1), arrived(good, 2)])

    assert [[topic for topic, _, _ in one] for one in made] == [["log"], ["refused"], ["log"]]
    said = json.loads(made[1][0][2])
    assert said["reason"].startswith("the row cannot be stored: ")
    assert said["offset"] == 1


class AcceptsEveryRow:
    """Admits every row: as its own cells, or with those that it was made with."""

    runs_code = False

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells = cells

    def parse_rows(self, rows: Any, **_: object) -> list[ParsedRow]:
        if any("fails" in row for row in rows):
            raise OverflowError("a number without end")
        return [ParsedRow(cells=row or self.cells) for row in rows]


def test_a_row_that_cannot_be_checked_does_not_block_others() -> None:
    schema = schema_of(Date(), Str())
    renderer = RowRenderer.of(
        json.dumps(to_plain(job_of(schema))), source_id="", output="log", quarantine="refused"
    )
    renderer.row_parser = AcceptsEveryRow(cells={})  # type: ignore[assignment]
    good: Json = {"k": "a", "v": 1, "at": 0}

    made = renderer.render([arrived(row) for row in (good, good, {"fails": 1}, good)])

    assert [one[0][0] for one in made] == ["log", "log", "refused", "log"]
    assert "a number without end" in json.loads(made[2][0][2])["reason"]


def test_a_row_that_is_too_large_for_a_record_is_set_aside() -> None:
    schema = schema_of(Str(), Str())
    long = "k" * (GREATEST_RECORD_BYTES // 3 + 1)

    ((made,),) = renderer_of(schema).render([arrived({"k": long, "v": long, "at": 0})])

    assert made[0] == "refused"
    assert "bytes in the log" in json.loads(made[2])["reason"]
    assert len(made[2]) <= GREATEST_RECORD_BYTES


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'{"a":' * (GREATEST_DEPTH + 1), b"\xff", b'{"a": 1' + b"0" * 5000]
)
def test_a_record_that_no_parser_can_hold_is_set_aside(value: bytes) -> None:
    format_ = TopicFormat(
        calls=False,
        envelopes=False,
        secrets=AuthorSecrets(home=Path(), mounted="", policy_file=Path()),
    )

    (row,) = format_.open().rows(value, place=RawRowPosition(), now_us=0)
    ((made,),) = renderer_of(schema_of(Int(), None)).render([row])

    assert made[0] == "refused"
