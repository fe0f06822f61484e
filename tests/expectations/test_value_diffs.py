"""Diffs of values: which keys and columns differ, by how much, and which input is the first."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from narthex._base import Json, to_plain
from narthex._base.times import HOUR_US
from narthex._ir import types
from narthex._ir.assets import DatasetPlan, HistorySpec
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.schema import Column
from narthex_expectations.comparisons import value_diffs
from narthex_expectations.comparisons.causes import SideDataset
from narthex_expectations.comparisons.differences import compare, examples
from narthex_expectations.comparisons.value_diffs import (
    ComparedDataset,
    NotComparableError,
    Question,
    diff,
)
from narthex_stores import HistoryAdapter, HistoryTable, LogRow
from tests.expectations.priced_shop import plans

AT = 1_700_000_000_000_000
NOW = AT + 1000 * HOUR_US
READS = {"Priced": ("Orders", "Rates"), "Activity": ("Clicks",), "Spend": ("Priced",)}
PLANS = plans()

Row = tuple[tuple[Cell, ...], tuple[Cell, ...]]
"""The key and the values of a row; its event time is its hour."""

ORDERS: Sequence[Row] = (
    (("o1",), ("ann", "EUR", 10.0)),
    (("o2",), ("bob", "CHF", 20.0)),
    (("o3",), ("ann", "CHF", 30.0)),
)
RATES: Sequence[Row] = ((("EUR",), (1.0,)), (("CHF",), (0.5,)))
PRICED: Sequence[Row] = (
    (("o1",), ("ann", "EUR", 10.0)),
    (("o2",), ("bob", "CHF", 10.0)),
    (("o3",), ("ann", "CHF", 15.0)),
)


def facts(rows: Sequence[Row], *, first: int = 0) -> list[LogRow]:
    return [
        LogRow(
            0,
            first + number,
            Fact(
                row_id=RowId(b"%06d" % (first + number)),
                version=Version(b"0"),
                event_time=AT + number * HOUR_US,
                key=key,
                values=values,
            ),
        )
        for number, (key, values) in enumerate(rows)
    ]


def valid(row: LogRow, plan: DatasetPlan) -> LogRow:
    """Return a row with the validity interval that its log has: from its event time on."""
    if not plan.log.lives:
        return row
    interval: tuple[Cell, ...] = (row.fact.event_time, None)
    return attrs.evolve(row, fact=attrs.evolve(row.fact, values=row.fact.values + interval))


@attrs.define
class Shop:
    """Histories of two sides; those that both share are written once."""

    directory: Path
    _assets: int = 0

    def side(
        self, rows: Mapping[str, Sequence[Row]], *, share: Mapping[str, SideDataset] | None = None
    ) -> dict[str, SideDataset]:
        return {name: self.history(name, facts(of)) for name, of in rows.items()} | dict(
            share or {}
        )

    def history(
        self, name: str, rows: Sequence[LogRow], *, plan: DatasetPlan | None = None
    ) -> SideDataset:
        plan = plan or PLANS[name]
        self._assets += 1
        physical = f"nx_{name.lower()}_{self._assets}"
        spec = HistorySpec(log=plan.log)
        HistoryAdapter(history_dir=str(self.directory)).create(
            physical, spec, asset_id=self._assets, timeout_s=10
        )
        path = str(self.directory / physical)
        HistoryTable(path, spec).append_rows([valid(row, plan) for row in rows])
        return SideDataset(
            plan=plan, history_path=path, asset_id=self._assets, reads=READS.get(name, ())
        )


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def asked(
    dataset: str, first: Mapping[str, SideDataset], second: Mapping[str, SideDataset]
) -> Question:
    return Question(dataset=dataset, sides=(first, second), now=NOW)


def counts(answer: ComparedDataset) -> tuple[Json, ...]:
    keys = answer.result["keys"]
    assert isinstance(keys, dict)
    return tuple(keys[name] for name in ("same", "differ", "on_first_only", "on_second_only"))


def causes(answer: ComparedDataset) -> list[tuple[Json, ...]]:
    found = answer.result["causes"]
    assert isinstance(found, list)
    return [
        (one["dataset"], one["kind"], one["keys"], one["not_followed"])
        for one in found
        if isinstance(one, dict)
    ]


def column(answer: ComparedDataset, name: str) -> Mapping[str, Json]:
    columns = answer.result["columns"]
    assert isinstance(columns, list)
    (found,) = [one for one in columns if isinstance(one, dict) and one["column"] == name]
    return found


def test_values_are_compared_by_key_and_column(shop: Shop) -> None:
    shared = shop.side({"Orders": ORDERS, "Rates": RATES})
    other = (PRICED[0], (("o2",), ("bob", "CHF", 12.0)), (("o4",), ("zoe", "EUR", 1.0)))

    answer = diff(
        asked(
            "Priced",
            shop.side({"Priced": PRICED}, share=shared),
            shop.side({"Priced": other}, share=shared),
        )
    )

    assert counts(answer) == (1, 1, 1, 1)
    assert column(answer, "user")["differ"] == 0
    euros = column(answer, "euros")
    assert (euros["differ"], euros["share"], euros["greatest_difference"]) == (1, 0.5, 2.0)
    assert euros["mean_difference"] == 1.0
    assert causes(answer) == [("Priced", "definition", 3, [])]
    assert answer.examples[0] == {
        "key": {"order": "o2"},
        "column": "euros",
        "first": 10.0,
        "second": 12.0,
        "cause": "Priced",
    }
    assert {"key": {"order": "o4"}, "only_on": "second", "cause": "Priced"} in answer.examples
    # The counts name no value of a row.
    assert "o2" not in json.dumps(answer.result)


def test_the_first_input_that_differs_is_the_cause_through_a_join_and_a_sum(shop: Shop) -> None:
    orders = shop.history("Orders", facts(ORDERS))
    rates = (RATES[0], (("CHF",), (0.6,)))
    priced = (PRICED[0], (("o2",), ("bob", "CHF", 12.0)), (("o3",), ("ann", "CHF", 18.0)))
    spend = [[((user,), (euros,)) for _, (user, _, euros) in rows] for rows in (PRICED, priced)]

    answer = diff(
        asked(
            "Spend",
            shop.side(
                {"Rates": RATES, "Priced": PRICED, "Spend": spend[0]}, share={"Orders": orders}
            ),
            shop.side(
                {"Rates": rates, "Priced": priced, "Spend": spend[1]}, share={"Orders": orders}
            ),
        )
    )

    assert counts(answer) == (0, 2, 0, 0)
    assert column(answer, "euros")["greatest_difference"] == 3.0
    assert causes(answer) == [("Rates", "source", 2, [])]


def test_rows_of_other_sources_are_a_cause_of_their_own_keys_only(shop: Shop) -> None:
    orders = (ORDERS[0], (("o2",), ("bob", "CHF", 22.0)), ORDERS[2])
    priced = (PRICED[0], (("o2",), ("bob", "CHF", 11.0)), (("o3",), ("ann", "CHF", 16.0)))
    rates = shop.history("Rates", facts(RATES))

    answer = diff(
        asked(
            "Priced",
            shop.side({"Orders": ORDERS, "Priced": PRICED}, share={"Rates": rates}),
            shop.side({"Orders": orders, "Priced": priced}, share={"Rates": rates}),
        )
    )

    assert sorted(causes(answer)) == [
        ("Orders", "source", 1, []),
        ("Priced", "definition", 1, []),
    ]


def test_rows_without_keys_are_followed_by_the_columns_of_the_group(shop: Shop) -> None:
    clicks = [((), ("ann", "/")), ((), ("bob", "/")), ((), ("ann", "/buy"))]
    more = [*clicks, ((), ("bob", "/buy"))]

    def side(rows: Sequence[Row]) -> dict[str, SideDataset]:
        activity = [((values[0],), ()) for _, values in rows]
        return shop.side({"Clicks": rows, "Activity": activity})

    question = attrs.evolve(asked("Activity", side(clicks), side(more)), at=AT + 5 * HOUR_US)
    of_groups = diff(question)
    of_rows = diff(attrs.evolve(question, dataset="Clicks"))

    assert counts(of_groups) == (1, 1, 0, 0)
    assert column(of_groups, "clicks")["greatest_difference"] == 1.0
    assert causes(of_groups) == [("Clicks", "source", 1, [])]
    assert counts(of_rows) == (3, 0, 0, 1)
    assert of_rows.examples == [
        {
            "key": {"at": "2023-11-15T01:13:20.000000Z", "#": 0},
            "only_on": "second",
            "cause": "Clicks",
        }
    ]


def test_sides_are_compared_as_of_what_both_have(shop: Shop) -> None:
    shared = shop.side({"Orders": ORDERS, "Rates": RATES})
    first = shop.side({"Priced": PRICED}, share=shared)
    second = shop.side({"Priced": PRICED[:2]}, share=shared)

    behind = diff(asked("Priced", first, second))
    later = diff(attrs.evolve(asked("Priced", first, second), at=AT + 2 * HOUR_US))

    assert behind.result["as_of"] == "2023-11-14T23:13:20.000000Z"
    assert counts(behind) == (2, 0, 0, 0)
    assert counts(later) == (2, 0, 1, 0)


def test_both_sides_have_the_same_sample(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    many: list[Row] = [((f"o{n}",), ("ann", "EUR", float(n))) for n in range(2000)]
    other = [((key,), (user, currency, euros + 1)) for (key,), (user, currency, euros) in many]
    shared = shop.side({"Orders": ORDERS, "Rates": RATES})
    question = asked(
        "Priced",
        shop.side({"Priced": many}, share=shared),
        shop.side({"Priced": [*reversed(other)]}, share=shared),
    )
    question = attrs.evolve(question, at=NOW * 2)

    sampled = diff(attrs.evolve(question, share=0.1))
    monkeypatch.setattr(value_diffs, "MOST_KEYS", 50)
    cut = diff(question)

    same, differ, first, second = counts(sampled)
    assert (same, first, second) == (0, 0, 0)
    assert isinstance(differ, int)
    assert 140 < differ < 260
    assert column(sampled, "euros")["mean_difference"] == 1.0
    assert sampled.result["share"] == 0.1
    assert (cut.result["share"], counts(cut)[1]) == (0.025, 50)


def test_given_keys_are_compared_alone(shop: Shop) -> None:
    shared = shop.side({"Orders": ORDERS, "Rates": RATES})
    other = [(key, (user, currency, -1.0)) for key, (user, currency, _) in PRICED]
    question = asked(
        "Priced",
        shop.side({"Priced": PRICED}, share=shared),
        shop.side({"Priced": other}, share=shared),
    )

    answer = diff(attrs.evolve(question, keys=({"order": "o3"}, {"order": "none"})))

    assert counts(answer) == (0, 1, 0, 0)
    assert answer.result["share"] is None
    with pytest.raises(NotComparableError, match="key 0 has user, not order"):
        diff(attrs.evolve(question, keys=({"user": "ann"},)))
    with pytest.raises(NotComparableError, match="key 0: "):
        diff(attrs.evolve(question, keys=({"order": 7},)))


def test_a_row_that_moved_to_another_key_is_not_there_any_more(shop: Shop) -> None:
    (one, two, three) = facts([(("ann",), (1.0,)), (("bob",), (2.0,)), (("ann",), (4.0,))])
    moved = attrs.evolve(
        three, offset=3, fact=attrs.evolve(three.fact, version=Version(b"1"), key=("zoe",))
    )
    first = shop.history("Spend", [one, two, three])
    second = shop.history("Spend", [one, two, three, moved])
    # Nothing is known about the input: both sides share it.
    priced = shop.side({"Orders": ORDERS, "Rates": RATES, "Priced": PRICED})

    answer = diff(
        attrs.evolve(
            asked("Spend", {**priced, "Spend": first}, {**priced, "Spend": second}),
            keys=({"user": "ann"},),
        )
    )

    assert counts(answer) == (0, 1, 0, 0)
    assert (answer.examples[0]["first"], answer.examples[0]["second"]) == (5.0, 1.0)


def test_an_input_with_other_columns_is_named_as_not_followed(shop: Shop) -> None:
    renamed = PLANS["Orders"]
    keys = (Column("id", types.Str()),)
    log = attrs.evolve(renamed.log, keys=keys)
    unlike = shop.history("Orders", facts(ORDERS), plan=attrs.evolve(renamed, log=log))
    other = [(key, (user, currency, -1.0)) for key, (user, currency, _) in PRICED]
    rates = shop.history("Rates", facts(RATES))

    answer = diff(
        asked(
            "Priced",
            shop.side({"Priced": PRICED}, share={"Orders": unlike, "Rates": rates}),
            shop.side({"Priced": other, "Orders": ORDERS}, share={"Rates": rates}),
        )
    )

    assert causes(answer) == [("Priced", "definition", 3, ["Orders"])]


def test_sides_with_other_keys_are_not_compared(shop: Shop) -> None:
    first = shop.history("Priced", facts(PRICED))
    plan = attrs.evolve(PLANS["Priced"], log=PLANS["Spend"].log)
    second = shop.history("Priced", facts([(("ann",), (1.0,))]), plan=plan)

    with pytest.raises(NotComparableError, match="keys order on one side and user on the other"):
        diff(asked("Priced", {"Priced": first}, {"Priced": second}))


def test_numbers_of_other_types_nulls_and_added_columns() -> None:
    number = types.Optional(types.Float())
    first = {("a",): {"n": 1, "p": 250}, ("b",): {"n": 2, "p": 100}, ("c",): {"n": 3, "p": 0}}
    second = {
        ("a",): {"n": 1.0, "p": 2.5, "new": 1},
        ("b",): {"n": None, "p": float("nan"), "new": 1},
        ("c",): {"n": 5.5, "p": 1.0, "new": 1},
    }
    of = (
        {"n": types.Int(), "p": types.Decimal(2), "old": types.Str()},
        {"n": number, "p": types.Float(), "new": types.Int()},
    )
    first = {key: {**cells, "old": ""} for key, cells in first.items()}

    found = compare(first, second, types_of=of)

    n, p, old, new = found.columns
    assert (n.differing, n.second_null, n.greatest, n.mean) == ((("b",), ("c",)), 1, 2.5, 1.25)
    assert (p.differing, p.numbers, p.greatest) == ((("b",), ("c",)), 2, 1.0)
    assert [(one.name, one.is_shared) for one in (old, new)] == [("old", False), ("new", False)]
    assert (found.same, len(found.differ)) == (1, 2)
    shown = examples(found, first, second, keys=(Column("k", types.Str()),))
    assert {"key": {"k": "b"}, "column": "p", "first": "1.00", "second": "NaN"} in shown


@pytest.mark.slow
def test_the_process_answers_questions_and_marks_mistakes_of_the_caller(shop: Shop) -> None:
    def plain(side: Mapping[str, SideDataset]) -> Json:
        return {
            name: {
                "plan": to_plain(one.plan),
                "history_path": one.history_path,
                "asset_id": one.asset_id,
                "reads": [*one.reads],
            }
            for name, one in side.items()
        }

    shared = shop.side({"Orders": ORDERS, "Rates": RATES})
    sides: list[Json] = [plain(shop.side({"Priced": PRICED}, share=shared)) for _ in range(2)]
    question: dict[str, Json] = {"dataset": "Priced", "sides": sides, "now": NOW}
    keys: Json = [{"user": "ann"}]

    done = subprocess.run(
        [sys.executable, "-m", "narthex_expectations.comparisons.diff_process"],
        input=json.dumps({"questions": [question, question | {"keys": keys}]}),
        capture_output=True,
        text=True,
        check=True,
    )

    answered, refused = map(json.loads, done.stdout.splitlines())
    assert answered["result"]["keys"]["same"] == 3
    assert answered["examples"] == []
    assert (refused["caller"], refused["error"]) == (True, "key 0 has user, not order")
