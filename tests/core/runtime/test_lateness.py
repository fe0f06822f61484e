"""Late rows do not depend on the order in which a log's partitions are read."""

from collections.abc import Iterable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.keys import keyed_row_id
from narthex._ir.assets import FeedSpec, LogShape
from narthex._ir.entities import Definitions
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import Str
from narthex._runtime.ingest.lateness import KEPT_ROWS, KEPT_STEPS, Lateness, render_late_row

SOURCE = "webhook:shop/orders"
DISORDER = 100


def row(offset: int, event_time: int, *, partition: int = 0, source: str = SOURCE) -> Fact:
    at = position(source, partition, offset)
    return Fact(
        row_id=RowId(at), version=Version(b"\x00"), event_time=event_time, key=(), values=()
    )


def upsert(offset: int, event_time: int, *, key: str) -> Fact:
    return Fact(
        row_id=keyed_row_id(key.encode(), event_time),
        version=Version(position(SOURCE, 1, offset, 7)),
        event_time=event_time,
        key=(key,),
        values=(),
    )


def observe(lateness: Lateness, facts: Iterable[Fact]) -> None:
    rows = tuple(facts)
    lateness.observe(
        [getattr(fact, lateness.position_column) for fact in rows],
        [fact.event_time for fact in rows],
        lambda place: rows[place].key,
    )


def test_a_row_further_behind_than_disorder_is_late() -> None:
    lateness = Lateness(DISORDER, LogShape.ROWS)

    observe(lateness, [row(0, 1000), row(1, 900), row(2, 899), row(3, 1001)])

    assert lateness.count == 1
    assert [(late.offset, late.event_time, late.late_us) for late in lateness.newest] == [
        (2, 899, 1)
    ]


def test_each_partition_of_each_source_has_a_time_of_its_own() -> None:
    lateness = Lateness(DISORDER, LogShape.ROWS)

    observe(lateness, [row(0, 10_000), row(1, 0, partition=1), row(2, 0, source="webhook:x/y")])

    assert lateness.count == 0


def test_the_position_of_an_upsert_is_in_its_version() -> None:
    lateness = Lateness(DISORDER, LogShape.KEYED)

    observe(lateness, [upsert(0, 1000, key="a"), upsert(1, 500, key="b")])

    (late,) = lateness.newest
    assert render_late_row(late, (Column("user", Str()),)) == {
        "key": {"user": "b"},
        "source": SOURCE,
        "partition": 1,
        "offset": 1,
        "ordinal": 7,
        "event_time": "1970-01-01T00:00:00.000500Z",
        "late_s": 0.0004,
    }


def test_a_log_that_a_pipeline_fills_has_no_late_rows() -> None:
    with pytest.raises(ValueError, match="pipeline"):
        Lateness(DISORDER, LogShape.CONTRIBUTIONS)


def test_a_row_that_the_log_repeats_counts_once() -> None:
    facts = [row(0, 1000), row(1, 5), row(2, 1100)]
    lateness = Lateness(DISORDER, LogShape.ROWS)

    observe(lateness, [*facts, *facts, *facts])

    assert lateness.count == 1


def test_only_the_newest_late_rows_are_listed() -> None:
    lateness = Lateness(DISORDER, LogShape.ROWS)

    observe(lateness, [row(0, 1000), *(row(offset, 0) for offset in range(1, 101))])

    assert lateness.count == 100
    assert [late.offset for late in lateness.newest] == list(range(101 - KEPT_ROWS, 101))


@given(st.lists(st.integers(0, 1000), max_size=60), st.data())
def test_a_row_is_never_called_late_for_the_order_of_reading(
    times: list[int], data: st.DataObject
) -> None:
    facts = [row(offset, time) for offset, time in enumerate(times)]
    late = {
        offset
        for offset, time in enumerate(times)
        if any(earlier - DISORDER > time for earlier in times[:offset])
    }
    read = data.draw(st.permutations(facts))
    lateness = Lateness(DISORDER, LogShape.ROWS)
    in_order = Lateness(DISORDER, LogShape.ROWS)

    observe(lateness, read)
    observe(in_order, facts)

    assert {found.offset for found in lateness.newest} <= late
    assert in_order.count == len(late)


def test_the_memory_of_a_partition_stays_small_and_correct() -> None:
    times = [offset * 10 + offset * 37 % 50 for offset in range(KEPT_STEPS * 5)]
    lateness = Lateness(DISORDER, LogShape.ROWS)

    # The other half of the log is read after all of this one.
    for part in (0, 1):
        observe(lateness, [row(o, time) for o, time in enumerate(times) if o % 2 == part])
    observe(lateness, [row(101, 0)])

    assert [late.offset for late in lateness.newest] == [101]


def test_a_feed_knows_the_greatest_disorder_of_its_sources(
    shop: Definitions,
) -> None:
    orders, *others = shop.datasets
    (source,) = orders.sources
    sources = (source, attrs.evolve(source, disorder_us=7))
    definitions = attrs.evolve(shop, datasets=(attrs.evolve(orders, sources=sources), *others))

    disorders = {
        asset.spec.dataset: asset.spec.disorder_us
        for asset in compile_blueprint(definitions).assets
        if isinstance(asset.spec, FeedSpec)
    }

    assert disorders == {"Orders": 7, "Users": 0, "Enriched": None, "Spend": None}


def test_each_source_has_a_disorder_of_its_own() -> None:
    strict, lenient = "webhook:shop/strict", "webhook:shop/lenient"
    lateness = Lateness(DISORDER, LogShape.ROWS, {strict: 10, lenient: DISORDER})

    for source in (strict, lenient):
        observe(lateness, [row(0, 1000, source=source), row(1, 950, source=source)])

    assert [(late.source_id, late.late_us) for late in lateness.newest] == [(strict, 40)]


def test_the_greatest_event_time_of_each_source_partition_is_known() -> None:
    lateness = Lateness(DISORDER, LogShape.ROWS)
    path = "files:lake:orders/*.csv"

    observe(lateness, [row(0, 500), row(1, 300), row(0, 400, partition=2)])
    observe(lateness, [row(0, 7, source=f"{path}#orders/b.csv")])
    observe(lateness, [row(0, 9, source=f"{path}#orders/a.csv")])

    assert lateness.event_times() == {f"{SOURCE}/0": 500, f"{SOURCE}/2": 400, f"{path}/0": 9}


def test_the_partitions_of_rows_are_named() -> None:
    lateness = Lateness(DISORDER, LogShape.ROWS)
    observe(lateness, [row(0, 500)])

    again = lateness.observe(
        [row(3, 1, partition=2).row_id, row(0, 500).row_id], [1, 500], lambda _: ()
    )

    assert again == {f"{SOURCE}/0", f"{SOURCE}/2"}
