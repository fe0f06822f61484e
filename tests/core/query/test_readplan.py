"""A question is answered by a plan: one read a dataset, extractors in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from typing_extensions import override

from narthex._analysis.graph import check
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import DatasetPlan
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    Definitions,
    ExpressionExtractor,
    Feature,
    Featureset,
    LookupExtractor,
)
from narthex._ir.expression_nodes import Ref
from narthex._ir.facts import Cell
from narthex._ir.schema import Metadata
from narthex._ir.types import Float, Int, List, Optional, Str
from narthex._query.execution import execute
from narthex._query.explanations import Explanations, FeatureExplanation
from narthex._query.lookup_batch import LookupBatch
from narthex._query.read_plan import CodeStep, LookupRequest, LookupStep, ReadPlan, plan
from narthex._runtime.workers import CodeCalls, WorkerPool
from narthex._testing.in_process import InProcessCalls
from narthex.errors import DefinitionErrors, LookupImpossible, UserCodeError


@attrs.frozen
class RecordedLookups:
    values: tuple[Cell, ...]
    event_time: int = 0


class Rows:
    """Rows by dataset and key; it records the lookups."""

    def __init__(self, rows: Mapping[str, Mapping[tuple[Cell, ...], RecordedLookups]]) -> None:
        self.rows = rows
        self.asked: list[tuple[str, list[tuple[Cell, ...]]]] = []

    def __call__(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> list[RecordedLookups | None]:
        assert len(keys) == len(as_of)
        self.asked.append((plan.name, list(keys)))
        return [self.rows.get(plan.name, {}).get(key) for key in keys]


@pytest.fixture
def rows() -> Rows:
    return Rows(
        {
            "Spend": {("ann",): RecordedLookups((3, 10.0, 2.5, (1.0, 2.0)))},
            "Users": {("ann",): RecordedLookups(("NO",))},
        }
    )


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def _plan(definitions: Definitions, inputs: Sequence[str], outputs: Sequence[str]) -> ReadPlan:
    plans = {one.name: one for one in compile_blueprint(definitions).datasets}
    return plan(definitions, plans, inputs=inputs, outputs=outputs)


def test_lookups_of_one_dataset_are_one_read(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(shop, ["F.user"], ["F.total", "F.mean", "F.orders"])

    answers = execute(
        planned, {"F.user": ["ann", "bob", "ann"]}, lookup=rows, workers=workers, as_of=[5, 5, 5]
    )

    assert rows.asked == [("Spend", [("ann",), ("bob",)])]
    assert answers == {
        "F.total": [10.0, 0.0, 10.0],
        "F.mean": [2.5, -1.0, 2.5],
        "F.orders": [3, None, 3],
    }


def test_a_key_never_seen_has_the_aggregates_default_else_the_features(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(shop, ["F.user"], ["F.mean", "F.total", "F.orders", "F.country"])

    answers = execute(planned, {"F.user": ["bob"]}, lookup=rows, workers=workers, as_of=[5])

    assert answers == {
        "F.mean": [-1.0],
        "F.total": [0.0],
        "F.orders": [None],
        "F.country": [None],
    }


def test_expressions_are_the_same_by_row_and_by_column(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(shop, ["F.total", "F.mean"], ["F.ratio"])
    totals = [float(number) for number in range(100)]
    means = [float(number % 7) for number in range(100)]

    whole = execute(
        planned,
        {"F.total": totals, "F.mean": means},
        lookup=rows,
        workers=workers,
        as_of=[0] * 100,
    )
    single = [
        execute(
            planned, {"F.total": [one], "F.mean": [other]}, lookup=rows, workers=workers, as_of=[0]
        )["F.ratio"][0]
        for one, other in zip(totals, means, strict=True)
    ]

    assert repr(whole["F.ratio"]) == repr(single)


def test_given_features_are_not_computed(shop: Definitions) -> None:
    planned = _plan(shop, ["F.total", "F.country"], ["F.spent", "F.risk"])

    assert not any(isinstance(step, LookupStep) for step in planned.steps)
    assert any(isinstance(step, CodeStep) for step in planned.steps)


def test_a_featureset_expands_to_all_of_its_features(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(shop, ["F.user"], ["F"])

    answers = execute(planned, {"F.user": ["ann"]}, lookup=rows, workers=workers, as_of=[5])

    assert answers == {
        "F.user": ["ann"],
        "F.total": [10.0],
        "F.mean": [2.5],
        "F.orders": [3],
        "F.country": ["NO"],
        "F.ratio": [4.0],
        "F.spent": [10.0],
        "F.risk": [20.0],
    }


def test_no_rows_give_no_answers(shop: Definitions, rows: Rows, workers: WorkerPool) -> None:
    planned = _plan(shop, ["F.user"], ["F"])

    answers = execute(planned, {"F.user": []}, lookup=rows, workers=workers, as_of=[])

    assert set(map(len, answers.values())) == {0}
    assert rows.asked == []


def test_all_missing_inputs_are_reported_at_once(shop: Definitions) -> None:
    with pytest.raises(DefinitionErrors) as caught:
        _plan(shop, [], ["F.total", "F.ttal"])

    codes = [error.code for error in caught.value.exceptions_flat()]
    assert sorted(codes) == ["NX604", "NX801"]
    assert "no extractor gives feature `F.user`, which `F.total` needs" in str(caught.value)


def test_features_that_need_each_other_are_refused(shop: Definitions) -> None:
    (featureset,) = shop.featuresets
    circle = (
        ExpressionExtractor(feature="total", expression=Ref("mean")),
        ExpressionExtractor(feature="mean", expression=Ref("total")),
    )
    wrong = attrs.evolve(shop, featuresets=(attrs.evolve(featureset, extractors=circle),))

    with pytest.raises(DefinitionErrors) as caught:
        _plan(wrong, ["F.user"], ["F.total"])

    assert "`F.total` → `F.mean` → `F.total`" in str(caught.value)


def _with_lists(shop: Definitions) -> Definitions:
    lists = Featureset(
        name="L",
        features=(
            Feature(name="user", type=List(Str())),
            Feature(name="means", type=List(Float())),
            Feature(name="orders", type=List(Optional(Int()))),
            Feature(name="names", type=List(Optional(Str()))),
            Feature(name="lasts", type=List(List(Float()))),
            Feature(name="known", type=Str()),
        ),
        extractors=(
            LookupExtractor(
                feature="means",
                dataset="Spend",
                column="mean",
                default=7.0,
                has_default=True,
                is_list=True,
            ),
            LookupExtractor(feature="orders", dataset="Spend", column="orders", is_list=True),
            LookupExtractor(feature="names", dataset="Spend", column="user", is_list=True),
            LookupExtractor(
                feature="lasts",
                dataset="Spend",
                column="last",
                default=(),
                has_default=True,
                is_list=True,
            ),
            AliasExtractor(
                feature="known", source="F.country", default="nowhere", has_default=True
            ),
        ),
        metadata=Metadata(owner="a@b.co"),
    )
    return attrs.evolve(shop, featuresets=(*shop.featuresets, lists))


def test_lists_of_keys_are_looked_up_element_by_element_in_one_read(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    whole = _with_lists(shop)
    planned = _plan(whole, ["L.user"], ["L.means", "L.orders", "L.names", "L.lasts"])

    answers = execute(
        planned,
        {"L.user": [("ann", "bob"), (), ("bob",), ("ann", None, "ann")]},
        lookup=rows,
        workers=workers,
        as_of=[5, 5, 5, 5],
    )

    assert check(whole) == ()
    assert rows.asked == [("Spend", [("ann",), ("bob",)])]
    assert answers == {
        "L.means": [(2.5, -1.0), (), (-1.0,), (2.5, -1.0, 2.5)],
        "L.orders": [(3, None), (), (None,), (3, None, 3)],
        "L.names": [("ann", None), (), (None,), ("ann", None, "ann")],
        "L.lasts": [((1.0, 2.0), ()), (), ((),), ((1.0, 2.0), (), (1.0, 2.0))],
    }


def test_lists_and_single_keys_are_one_read_of_one_dataset(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(_with_lists(shop), ["F.user", "L.user"], ["F.orders", "L.orders"])

    execute(
        planned,
        {"F.user": ["ann"], "L.user": [("bob", "ann")]},
        lookup=rows,
        workers=workers,
        as_of=[5],
    )

    assert rows.asked == [("Spend", [("ann",), ("bob",)])]


def test_only_empty_lists_ask_for_nothing(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(_with_lists(shop), ["L.user"], ["L.orders"])

    answers = execute(planned, {"L.user": [(), ()]}, lookup=rows, workers=workers, as_of=[5, 5])

    assert (answers, rows.asked) == ({"L.orders": [(), ()]}, [])


def test_lists_of_keys_of_different_lengths_are_refused() -> None:
    request = LookupRequest(keys=("F.a", "F.b"), takes=(), is_list=True)

    with pytest.raises(LookupImpossible, match=r"`F\.a` has 2, `F\.b` has 1"):
        LookupBatch().add(request, {"F.a": [(1, 2)], "F.b": [(1,)]}, [5])


def test_an_alias_gives_its_default_for_null(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(_with_lists(shop), ["F.user"], ["L.known"])

    answers = execute(
        planned, {"F.user": ["ann", "bob"]}, lookup=rows, workers=workers, as_of=[5, 5]
    )

    assert answers == {"L.known": ["NO", "nowhere"]}


def test_reading_ends_before_the_code_that_looks_nothing_up(shop: Definitions, rows: Rows) -> None:
    planned = _plan(shop, ["F.user"], ["F.risk", "F.orders"])
    seen: list[str] = []

    class Recorder(InProcessCalls):
        @override
        def call(self, *given: Any, **named: Any) -> pa.Table:
            seen.append("code")
            return super().call(*given, **named)

    class Workers:
        def reaching(self, features: Sequence[str]) -> CodeCalls:
            assert features == ("F.risk",)
            return Recorder()

    def looked_up(
        plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> list[RecordedLookups | None]:
        seen.append("lookup")
        return rows(plan, keys, as_of)

    execute(
        planned,
        {"F.user": ["ann"]},
        lookup=looked_up,
        workers=Workers(),
        as_of=[5],
        end_reading=lambda: seen.append("end"),
    )

    assert seen == ["lookup", "lookup", "end", "code"]


def explained(
    planned: ReadPlan, given: Mapping[str, Sequence[Cell]], rows: Rows, workers: WorkerPool
) -> Mapping[str, FeatureExplanation]:
    found = Explanations(len(next(iter(given.values()))))
    as_of = [50] * found.rows
    answers = execute(planned, given, lookup=rows, workers=workers, as_of=as_of, explanations=found)
    assert answers == execute(planned, given, lookup=rows, workers=workers, as_of=as_of)
    return {name: found.of(name) for name in planned.outputs}


@pytest.fixture
def dated_rows() -> Rows:
    return Rows(
        {
            "Spend": {("ann",): RecordedLookups((3, 10.0, None, (1.0, 2.0)), event_time=30)},
            "Users": {("ann",): RecordedLookups(("NO",), event_time=20)},
        }
    )


def test_a_looked_up_feature_has_the_time_of_its_row_or_a_default(
    shop: Definitions, dated_rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(shop, ["F.user"], ["F.user", "F.total", "F.mean", "F.orders"])

    found = explained(planned, {"F.user": ["ann", "bob"]}, dated_rows, workers)

    assert found == {
        "F.user": FeatureExplanation((), [None, None], [False, False]),
        "F.total": FeatureExplanation(("Spend.total",), [30, None], [False, True]),
        "F.mean": FeatureExplanation(("Spend.mean",), [30, None], [True, True]),
        "F.orders": FeatureExplanation(("Spend.orders",), [30, None], [False, False]),
    }


def test_a_computed_feature_is_as_old_as_its_oldest_source(
    shop: Definitions, dated_rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(_with_lists(shop), ["F.user"], ["F.ratio", "F.risk", "L.known"])

    found = explained(planned, {"F.user": ["ann", "bob"]}, dated_rows, workers)

    assert set(found["F.ratio"].sources) == {"F.total", "F.mean"}
    assert (found["F.ratio"].event_times, found["F.ratio"].defaults) == ([30, None], [True, True])
    assert found["F.risk"].sources == ("F.total", "F.country")
    assert found["F.risk"].event_times == [20, None]
    assert found["L.known"] == FeatureExplanation(("F.country",), [20, None], [False, True])


def test_a_list_of_keys_is_as_old_as_its_oldest_row(
    shop: Definitions, dated_rows: Rows, workers: WorkerPool
) -> None:
    planned = _plan(_with_lists(shop), ["L.user"], ["L.orders", "L.means"])
    dated_rows.rows["Spend"][("cem",)] = RecordedLookups((1, 1.0, 1.0, ()), event_time=10)

    found = explained(planned, {"L.user": [("ann", "cem"), ("bob",), ()]}, dated_rows, workers)

    assert found["L.orders"].event_times == [10, None, None]
    assert found["L.means"].defaults == [True, True, False]


def test_an_explanation_has_ages_in_seconds() -> None:
    one = FeatureExplanation(("A.b",), [1_000_000, None], [False, True])

    assert one.plain(2_500_000) == {
        "sources": ["A.b"],
        "event_time": ["1970-01-01T00:00:01.000000Z", None],
        "age_s": [1.5, None],
        "default": [False, True],
    }


def test_struct_keys_are_looked_up_once() -> None:
    asking = LookupBatch()
    request = LookupRequest(keys=("F.w",), takes=())

    asked = asking.add(request, {"F.w": [{"begin": 1, "end": 2}, {"end": 2, "begin": 1}]}, [5, 5])

    assert asked.places == [0, 0]


def test_an_extractor_looks_up_only_what_it_names(
    shop: Definitions, rows: Rows, workers: WorkerPool
) -> None:
    source = (
        "from narthex.lookups import reference\n"
        "Users = reference('Users')\n"
        "def risk(cls, ts, total, country):\n"
        "    found, _ = Users.lookup(ts, user=country, fields=['country'])\n"
        "    return total.rename('risk')\n"
    )
    *others, risk = shop.featuresets[0].extractors
    assert isinstance(risk, CodeExtractor)

    def edited(datasets: tuple[str, ...]) -> Definitions:
        code = attrs.evolve(risk.code, source=source)
        changed = attrs.evolve(risk, code=code, datasets=datasets)
        featureset = attrs.evolve(shop.featuresets[0], extractors=(*others, changed))
        return attrs.evolve(shop, featuresets=(featureset,))

    given = {"F.total": [1.0], "F.country": ["NO"]}
    named = _plan(edited(("Users",)), list(given), ["F.risk"])
    unnamed = _plan(edited(()), list(given), ["F.risk"])

    assert execute(named, given, lookup=rows, workers=workers, as_of=[5]) == {"F.risk": [1.0]}
    with pytest.raises(UserCodeError, match="not in its `deps`"):
        execute(unnamed, given, lookup=rows, workers=workers, as_of=[5])
