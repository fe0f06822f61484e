"""The rows that arrived in a dataset are summarized by column and hour."""

import datetime as dt
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex._base import Json, to_plain
from narthex._base.times import HOUR_US
from narthex._drift import FeatureKind, FeatureSummary, kind_of, summary_of
from narthex._ir.assets import HistorySpec
from narthex_expectations.column_summaries import (
    BACK_US,
    first_hour,
    histories_of,
    parts_of,
    summaries_of,
)
from narthex_expectations.frames import open_history
from narthex_expectations.server_client import ServerRefusedError
from narthex_stores import HistoryAdapter, HistoryTable
from tests.expectations.test_audits import COLUMNS, LOG, log_rows, plan_of
from tests.expectations.test_value_diffs import AT, Shop, facts

KINDS = {name: kind_of(of) for name, of in COLUMNS.items()}
NINE = dt.datetime(2026, 5, 1, 9, tzinfo=dt.UTC)
NINE_US = int(NINE.timestamp()) * 1_000_000


@pytest.fixture
def table(tmp_path: Path) -> HistoryTable:
    spec = HistorySpec(log=LOG)
    HistoryAdapter(history_dir=str(tmp_path)).create("nx_h", spec, asset_id=1, timeout_s=10)
    return HistoryTable(str(tmp_path / "nx_h"), spec)


def test_columns_are_summarized_as_answers_are(table: HistoryTable) -> None:
    table.append_rows(log_rows())

    found = summaries_of(plan_of(), table, {0: 0}, {0: 3}, as_of=0)

    rendered: dict[str, list[Json]] = {
        "n": [1, 2, 3],
        "maybe": [1, None, 3],
        "f": [0.5, 1.5, 2.5],
        "s": ["ab", "cd", None],
        "b": [True, None, False],
        "price": ["1.20", "2.50", "3.99"],
        "day": ["2013-01-01", "2013-01-02", "2013-01-03"],
    }
    for name, cells in rendered.items():
        assert found[name] == summary_of(cells, KINDS[name]), name
    seen = found["seen"]
    assert (seen.kind, seen.rows, seen.nulls) == (FeatureKind.OPAQUE, 3, 0)


def test_the_newest_state_of_a_row_counts_and_rows_of_other_hours_do_not(
    table: HistoryTable,
) -> None:
    table.append_rows(log_rows())
    first, second, _ = log_rows(first=3)
    again = attrs.evolve(first, offset=5, fact=attrs.evolve(first.fact, version=b"9"))
    dead = attrs.evolve(second, offset=6, fact=attrs.evolve(second.fact, version=b"9", alive=False))
    table.append_rows([first, second, again, dead])

    def rows(since: int, until: int) -> int:
        return summaries_of(plan_of(), table, {0: since}, {0: until}, as_of=0)["n"].rows

    assert (rows(0, 3), rows(3, 5), rows(3, 7), rows(7, 7)) == (3, 2, 1, 0)


def test_many_rows_are_summarized_in_parts_with_the_same_result(table: HistoryTable) -> None:
    table.append_rows(log_rows())
    whole = summaries_of(plan_of(), table, {0: 0}, {0: 3}, as_of=0)

    assert summaries_of(plan_of(), table, {0: 0}, {0: 3}, as_of=0, most=1) == whole


def test_columns_of_an_aggregate_have_the_values_of_keys_at_the_end_of_the_hour(
    tmp_path: Path,
) -> None:
    """Its history has contributions, which are not values."""
    rows = facts([(("ann",), (1.0,)), (("bob",), (2.0,)), (("ann",), (4.0,))])
    spend = Shop(tmp_path).history("Spend", rows)
    table = open_history(spend.plan, spend.history_path)

    def euros(since: int, until: int, *, hours: int) -> FeatureSummary:
        as_of = AT + hours * HOUR_US
        found = summaries_of(spend.plan, table, {0: since}, {0: until}, as_of=as_of)
        assert set(found) == {"euros"}, "keys have no statistics"
        return found["euros"]

    kind = FeatureKind.NUMBER
    assert euros(0, 1, hours=0) == summary_of([1.0], kind)
    assert euros(0, 2, hours=1) == summary_of([1.0, 2.0], kind)
    # Bob, whose row arrived earlier, has a value too.
    assert euros(2, 3, hours=2) == summary_of([5.0, 2.0], kind)


def test_parts_have_each_record_once() -> None:
    parts = [*parts_of({0: 5, 1: 0}, {0: 5, 1: 25, 2: 7}, most=10)]

    assert len(parts) == 4
    starts, ends = [start for start, _ in parts], [end for _, end in parts]
    assert (starts[0], ends[-1]) == ({0: 5, 1: 0, 2: 0}, {0: 5, 1: 25, 2: 7})
    assert starts[1:] == ends[:-1]
    assert all(sum(end[p] - start[p] for p in end) <= 10 for start, end in parts)


@pytest.mark.parametrize(
    ("hours_ago", "hour"),
    [(None, -48), (0, -1), (1, -2), (30, -31), (1000, -48)],
)
def test_the_newest_two_hours_are_summarized_again(hours_ago: int | None, hour: int) -> None:
    newest = None if hours_ago is None else NINE - dt.timedelta(hours=hours_ago)

    found = first_hour(newest, now_us=NINE_US + 12_345)

    assert found == NINE_US + hour * HOUR_US
    assert found >= NINE_US - BACK_US


def listed(branch: str, newest: dt.datetime | None, **changes: Any) -> dict[str, Any]:
    return {
        "branch": branch,
        "dataset": "Orders",
        "plan": to_plain(plan_of()),
        "history": "nx_orders",
        "topic": "t",
        "newest": None if newest is None else newest.isoformat(),
    } | changes


def test_a_history_of_several_branches_is_read_once() -> None:
    earlier = NINE - dt.timedelta(hours=3)

    found = histories_of(
        [listed("main", NINE), listed("dev", earlier), listed("other", NINE, history="nx_others")],
        "/h",
    )

    assert [(one.branches, one.newest) for one in found] == [
        (("main", "dev"), earlier),
        (("other",), NINE),
    ]
    assert [one.history_path for one in found] == ["/h/nx_orders", "/h/nx_others"]
    (new,) = histories_of([listed("main", NINE), listed("dev", None)], "/h")
    assert new.newest is None
    with pytest.raises(ServerRefusedError, match="describes no dataset"):
        histories_of([listed("main", NINE, plan=None)], "/h")
