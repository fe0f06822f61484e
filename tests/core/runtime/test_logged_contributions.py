"""A log of contributions contains as much information as its rows."""

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._analysis.schemas.pipelines import output_schema
from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import keyed_row_id
from narthex._ir.aggregate_specs import AggregateSpec, Count, LastK, Min, Sum
from narthex._ir.assets import VALIDITY_COLUMNS, LogShape, LogSpec, PipelineInput
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema, of_dataset
from narthex._ir.operators import Aggregate, DatasetRef
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex._ir.windows import Continuous, Hopping, Tumbling, Window
from narthex._runtime.steps import RowBatch, facts_of, rows_of, versions_of
from narthex._runtime.steps.logged import NoAggregateError
from narthex._runtime.steps.plain_groups import PlainGroups
from tests.core.runtime.contribution_logs import contributed, logged

ROWS = DatasetRef("RowBatch")
INSTANTS = range(-1, 14, 2)
some = settings(max_examples=15)
AT = Field(name="at", type=Datetime(), role=Role.TIMESTAMP)
KEY = Field(name="id", type=Int(), role=Role.KEY)
PLAIN = (
    Field(name="team", type=Str()),
    Field(name="x", type=Int()),
    Field(name="due", type=Datetime()),
    AT,
)


def _aggregate(window: Window, along: str | None) -> Aggregate:
    specs: tuple[AggregateSpec, ...] = (
        Count(into="n", window=window),
        Sum(into="total", window=window, of="x"),
        Min(into="least", window=window, of="x", default=0),
        LastK(into="last", window=window, of="x", limit=2, dedup=False),
    )
    return Aggregate(ROWS, ("team",), specs, along=along)


@st.composite
def _facts(draw: st.DrawFn, *, keyed: bool) -> tuple[Fact, ...]:
    found: dict[RowId, Fact] = {}
    for number in range(draw(st.integers(0, 12))):
        at = draw(st.integers(0, 8))
        alive = draw(st.integers(0, 5)) > 0 if keyed else True
        key = (draw(st.integers(0, 2)),) if keyed else ()
        encoded = key[0].to_bytes(1) if key else b""
        row_id = keyed_row_id(encoded, at) if keyed else RowId(position("s", 0, number))
        cells = (draw(st.sampled_from("ab")), draw(st.integers(0, 9)), draw(st.integers(0, 8)))
        found[row_id] = Fact(
            row_id=row_id,
            version=Version(number.to_bytes(2)),
            event_time=at,
            key=key,
            values=cells if alive else (None,) * len(cells),
            alive=alive,
        )
    return tuple(found.values())


def _log(before: NodeSchema, aggregate: Aggregate) -> LogSpec:
    return LogSpec(
        shape=LogShape.CONTRIBUTIONS,
        keys=(Column("team", Str()),),
        values=(Column("x", Int()), *(VALIDITY_COLUMNS if before.keys else ())),
        time_field="at",
        along=bool(before.keys) and aggregate.along is not None,
    )


def _given(aggregate: Aggregate, log: LogSpec, groups: NodeSchema) -> PipelineInput:
    fields = [Field(name="team", type=Str(), role=Role.KEY)]
    fields += [Field(name=column.name, type=column.type) for column in groups.values]
    along = aggregate.along if log.lives else None
    return PipelineInput(
        dataset="Teams",
        log=log,
        schema=Schema((*fields, AT)),
        aggregate=attrs.evolve(aggregate, input=DatasetRef("Teams"), along=along),
        aggregates=groups.aggregates,
    )


def _through_the_log(rows: RowBatch, log: LogSpec, along: str | None) -> RowBatch:
    codec = fact_codec(log)
    written: Sequence[bytes] = [codec.encode(fact) for fact in logged(rows, log, along=along)]
    return contributed(reversed(codec.decode_many(written)), log)


def _equal(rows: RowBatch, aggregate: Aggregate, before: NodeSchema, groups: NodeSchema) -> None:
    log = _log(before, aggregate)
    given_ = _given(aggregate, log, groups)
    read = _through_the_log(rows, log, aggregate.along)
    whole = PlainGroups(aggregate, rows, groups)
    assert given_.aggregate is not None
    folded = PlainGroups(given_.aggregate, read, groups)

    for team in ("a", "b"):
        for asked in INSTANTS:
            assert folded.answer((team,), asked) == whole.answer((team,), asked)
    values = given_.schema.values
    assert facts_of(versions_of(given_, read), values) == facts_of(whole.versions(), values)


@pytest.mark.parametrize("along", [None, "due"])
@pytest.mark.parametrize(
    "window",
    [Continuous(3), Continuous("forever"), Hopping("forever", 2)],
)
@some
@given(facts=_facts(keyed=True))
def test_keyed_rows_are_folded_alike_from_their_log(
    window: Window, along: str | None, facts: tuple[Fact, ...]
) -> None:
    info = DatasetSchemaInfo(name="RowBatch", schema=Schema((KEY, *PLAIN)))
    aggregate = _aggregate(window, along)
    before = of_dataset(info)
    groups = output_schema(aggregate, {"RowBatch": info})

    assert groups.errors == ()
    _equal(rows_of(facts, before), aggregate, before, groups)


@pytest.mark.parametrize("along", [None, "due"])
@pytest.mark.parametrize("window", [Continuous(3), Tumbling(2, lookback=2)])
@some
@given(facts=_facts(keyed=False))
def test_keyless_rows_are_folded_alike_from_their_log(
    window: Window, along: str | None, facts: tuple[Fact, ...]
) -> None:
    info = DatasetSchemaInfo(name="RowBatch", schema=Schema(PLAIN))
    aggregate = _aggregate(window, along)
    before = of_dataset(info)
    groups = output_schema(aggregate, {"RowBatch": info})

    assert groups.errors == ()
    _equal(rows_of(facts, before), aggregate, before, groups)


def test_a_keyed_window_along_a_column_with_a_lookback_is_folded_alike() -> None:
    info = DatasetSchemaInfo(name="RowBatch", schema=Schema((KEY, *PLAIN)))
    aggregate = _aggregate(Tumbling(2, lookback=4), "due")
    before = of_dataset(info)
    facts = [
        Fact(
            row_id=keyed_row_id(b"\x00", at),
            version=Version(b""),
            event_time=at,
            key=(0,),
            values=("a", at, due),
        )
        for at, due in ((0, 5), (3, 1), (6, 4), (8, 0))
    ]

    _equal(rows_of(facts, before), aggregate, before, output_schema(aggregate, {"RowBatch": info}))


def test_a_log_of_rows_is_not_folded() -> None:
    log = LogSpec(shape=LogShape.ROWS, keys=(), values=(), time_field="at")
    rows = PipelineInput(dataset="RowBatch", log=log, schema=Schema(PLAIN))

    with pytest.raises(NoAggregateError, match="`RowBatch` holds rows"):
        versions_of(rows, rows_of((), of_dataset(DatasetSchemaInfo(name="", schema=Schema(PLAIN)))))
