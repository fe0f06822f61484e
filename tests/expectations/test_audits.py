from pathlib import Path

import attrs
import pytest

from narthex._base.times import HOUR_US
from narthex._ir import types
from narthex._ir.assets import DatasetPlan, HistorySpec, LogShape, LogSpec
from narthex._ir.entities import Expectation
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.schema import Column, Field, Role, Schema
from narthex_expectations.audit_results import AuditResult, UnknownExpectationError
from narthex_expectations.audits import audit, audit_arrived, hold, newest_hour
from narthex_expectations.frames import frame
from narthex_expectations.suites import KINDS, compile_suite, suite_json
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, to_table

pytestmark = pytest.mark.slow

COLUMNS = {
    "n": types.Int(),
    "maybe": types.Optional(types.Int()),
    "f": types.Float(),
    "s": types.Optional(types.Str()),
    "j": types.Str(),
    "b": types.Optional(types.Bool()),
    "price": types.Decimal(2),
    "day": types.Date(),
    "seen": types.Datetime(),
}
LOG = LogSpec(
    shape=LogShape.ROWS,
    keys=(),
    values=tuple(Column(name, of) for name, of in COLUMNS.items()),
    time_field="at",
)
SCHEMA = Schema(
    (
        *(Field(name=name, type=of) for name, of in COLUMNS.items()),
        Field(name="at", type=types.Datetime(), role=Role.TIMESTAMP),
    )
)
DAY = 15706
AT = DAY * 24 * HOUR_US
ROWS = (
    (1, 1, 0.5, "ab", '{"a": 1}', True, 120, DAY, AT),
    (2, None, 1.5, "cd", '{"a": 2}', None, 250, DAY + 1, AT + HOUR_US),
    (3, 3, 2.5, None, "[]", False, 399, DAY + 2, AT + 2 * HOUR_US),
)


def promise(kind: str, mostly: float | None = None, **arguments: LiteralValue) -> Expectation:
    return Expectation(kind=kind, arguments=tuple(arguments.items()), mostly=mostly)


def plan_of(*promises: Expectation) -> DatasetPlan:
    return DatasetPlan(
        name="Orders",
        version=2,
        schema=SCHEMA,
        log=LOG,
        aggregates=(),
        ladder_us=(),
        online=False,
        offline=True,
        expectations=promises,
    )


def log_rows(first: int = 0) -> list[LogRow]:
    return [
        LogRow(
            0,
            first + number,
            Fact(
                row_id=RowId(b"%d" % number),
                version=Version(b"%d" % first),
                event_time=AT + number * HOUR_US,
                key=(),
                values=cells,
            ),
        )
        for number, cells in enumerate(ROWS)
    ]


KEPT = (
    promise("expect_column_values_to_not_be_null", column="n"),
    promise("expect_column_values_to_be_null", mostly=0.3, column="s"),
    promise("expect_column_values_to_be_of_type", column="maybe", type_="int"),
    promise("expect_column_values_to_be_in_type_list", column="s", type_list=("str", "float")),
    promise("expect_column_values_to_be_in_set", column="b", value_set=(True, False)),
    promise("expect_column_values_to_not_be_in_set", column="n", value_set=(7, 8)),
    promise("expect_column_values_to_be_between", column="f", min_value=0, max_value=3),
    promise("expect_column_values_to_be_between", column="price", min_value=1.2, max_value=4),
    promise(
        "expect_column_values_to_be_between",
        column="seen",
        min_value="2013-01-01",
        max_value="2013-01-02T00:00:00Z",
    ),
    promise("expect_column_values_to_be_in_set", column="price", value_set=(1.2, "2.50", "3.99")),
    promise(
        "expect_column_values_to_be_in_set",
        column="day",
        value_set=("2013-01-01", "2013-01-02", "2013-01-03"),
    ),
    promise("expect_column_value_lengths_to_be_between", column="s", min_value=1, max_value=2),
    promise("expect_column_value_lengths_to_equal", column="s", value=2),
    promise("expect_column_values_to_match_regex", column="s", regex="^[a-d]+$"),
    promise("expect_column_values_to_not_match_regex", column="s", regex="z"),
    promise("expect_column_values_to_match_regex_list", column="s", regex_list=("a", "c")),
    promise("expect_column_values_to_not_match_regex_list", column="s", regex_list=("y", "z")),
    promise(
        "expect_column_values_to_match_strftime_format",
        mostly=0.0,
        column="j",
        strftime_format="%Y",
    ),
    promise("expect_column_values_to_be_dateutil_parseable", mostly=0.0, column="s"),
    promise("expect_column_values_to_be_json_parseable", column="j"),
    promise(
        "expect_column_values_to_match_json_schema",
        mostly=0.6,
        column="j",
        json_schema='{"type": "object"}',
    ),
    promise("expect_column_pair_values_to_be_equal", mostly=0.6, column_A="n", column_B="maybe"),
    promise("expect_column_pair_values_A_to_be_greater_than_B", column_A="n", column_B="f"),
    promise(
        "expect_column_pair_values_A_to_be_greater_than_B",
        column_A="maybe",
        column_B="n",
        or_equal=True,
    ),
    promise(
        "expect_column_pair_values_to_be_in_set",
        column_A="n",
        column_B="s",
        value_pairs_set=((1, "ab"), (2, "cd"), (3, None)),
    ),
    promise("expect_multicolumn_sum_to_equal", mostly=0.5, column_list=("n", "maybe"), sum_total=2),
)
BROKEN = (
    promise("expect_column_values_to_not_be_null", column="s"),
    promise("expect_column_values_to_be_between", column="n", max_value=3, strict_max=True),
    promise("expect_column_values_to_be_of_type", column="s", type_="int"),
    promise("expect_column_values_to_match_json_schema", column="j", json_schema='{"type": 1}'),
    promise("expect_column_pair_values_A_to_be_greater_than_B", column_A="f", column_B="n"),
    promise("expect_multicolumn_sum_to_equal", column_list=("n", "f"), sum_total=1.5),
    promise("expect_column_values_to_be_between", mostly=0.7, column="n", max_value=2),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    HistoryAdapter(history_dir=str(tmp_path)).create(
        "nx_h", HistorySpec(log=LOG), asset_id=1, timeout_s=10
    )
    return str(tmp_path / "nx_h")


def test_every_kind_of_promise_is_held_against_rows() -> None:
    assert {one.kind for one in KEPT} == KINDS


def test_promises_that_rows_keep_succeed() -> None:
    findings = hold(plan_of(*KEPT), frame(LOG, to_table(LOG, log_rows())))

    assert [(one.kind, one.error) for one in findings if not one.success] == []


def test_promises_that_rows_break_fail_and_are_counted() -> None:
    findings = hold(plan_of(*BROKEN), frame(LOG, to_table(LOG, log_rows())))

    assert [one.success for one in findings] == [False] * len(BROKEN)
    assert findings[0].counts["unexpected_count"] == 1
    assert findings[1].counts["element_count"] == 3


def test_findings_are_in_the_order_of_the_expectations() -> None:
    mixed = (*BROKEN, *KEPT)

    findings = hold(plan_of(*mixed), frame(LOG, to_table(LOG, log_rows())))

    assert [one.kind for one in findings] == [one.kind for one in mixed]


def test_a_result_contains_no_value_of_a_row(path: str) -> None:
    HistoryTable(path, HistorySpec(log=LOG)).append_rows(log_rows())
    broken = promise("expect_column_values_to_be_in_set", column="s", value_set=("zz",))

    found = audit(plan_of(broken), path, from_us=AT, to_us=AT + HOUR_US)

    assert "ab" not in str(found.to_json())


def test_an_audit_reads_the_current_rows_of_its_span(path: str) -> None:
    table = HistoryTable(path, HistorySpec(log=LOG))
    table.append_rows(log_rows())
    table.append_rows(log_rows(first=3))
    small = promise("expect_column_values_to_be_between", column="n", max_value=2)

    early = audit(plan_of(small), path, from_us=AT, to_us=AT + 2 * HOUR_US)
    late = audit(plan_of(small), path, from_us=AT + 2 * HOUR_US, to_us=AT + 3 * HOUR_US)

    assert (early.rows, early.success) == (2, True)
    assert (late.rows, late.success) == (1, False)
    assert late.to_json()["failed"] == 1
    assert late.statistics["success_percent"] == 0.0


def test_an_hour_without_rows_breaks_no_promise(path: str) -> None:
    found = audit(plan_of(*KEPT, *BROKEN), path, from_us=0, to_us=HOUR_US)

    assert found.success
    assert found.rows == 0
    assert len(found.findings) == len(KEPT) + len(BROKEN)


def test_a_dataset_without_promises_keeps_them_all(path: str) -> None:
    HistoryTable(path, HistorySpec(log=LOG)).append_rows(log_rows())

    found = audit(plan_of(), path, from_us=AT, to_us=AT + HOUR_US)

    assert (found.rows, found.success) == (1, True)
    assert found.statistics["success_percent"] is None


def test_the_newest_hour_ends_with_the_newest_row_that_is_not_of_the_future(path: str) -> None:
    assert newest_hour(plan_of(), path, now_us=2 * AT) == (0, 0)

    HistoryTable(path, HistorySpec(log=LOG)).append_rows(log_rows())

    newest = AT + 2 * HOUR_US
    assert newest_hour(plan_of(), path, now_us=2 * AT) == (newest + 1 - HOUR_US, newest + 1)
    assert newest_hour(plan_of(), path, now_us=newest - 1) == (AT + 1, AT + HOUR_US + 1)


def test_rows_are_audited_by_the_hour_in_which_they_arrived(path: str) -> None:
    table = HistoryTable(path, HistorySpec(log=LOG))
    table.append_rows(log_rows())
    corrected = log_rows(first=3)[2]
    future = attrs.evolve(log_rows(first=3)[1], offset=6)
    future = attrs.evolve(future, fact=attrs.evolve(future.fact, row_id=b"f", event_time=2**60))
    table.append_rows([corrected, future])

    def arrived(since: int, end: int) -> AuditResult:
        return audit_arrived(
            plan_of(promise("expect_column_values_to_be_between", column="n", max_value=2)),
            table,
            from_us=0,
            to_us=HOUR_US,
            since={0: since},
            offsets={0: end},
        )

    first, second, none = arrived(0, 3), arrived(3, 7), arrived(7, 7)

    assert (first.rows, second.rows, none.rows) == (3, 2, 0)
    assert [one.findings[0].counts.get("unexpected_count") for one in (first, second)] == [1, 1]
    assert (second.to_json()["by"], second.to_json()["offsets"]) == ("arrival", {"0": 7})
    # What arrived later does not change an earlier hour.
    assert arrived(0, 3) == first


def test_a_promise_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UnknownExpectationError, match="expect_the_best"):
        compile_suite(plan_of(promise("expect_the_best", column="n")))


def test_a_suite_is_json_that_great_expectations_names() -> None:
    found = suite_json(compile_suite(plan_of(*KEPT)))

    assert isinstance(found, dict)
    assert found["name"] == "Orders@2"
    assert isinstance(found["expectations"], list)
    assert len(found["expectations"]) == len(KEPT)
