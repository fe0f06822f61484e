"""Steps that need earlier rows become stateful jobs."""

from collections.abc import Callable

import attrs
import pytest

from narthex._analysis.graph import typed_datasets
from narthex._base.records import from_plain, to_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._compiler.producer_jobs import may_fail
from narthex._compiler.state_requirements import StateRequirement, StateUse, state_requirements
from narthex._ir.aggregate_specs import AggregateSpec, Count, Sum
from narthex._ir.assets import (
    VALIDITY_COLUMNS,
    AssetBlueprint,
    Blueprint,
    IndexSpec,
    LogShape,
    PipelineJobSpec,
    Trigger,
)
from narthex._ir.code import UserCode
from narthex._ir.entities import Dataset, Definitions, Index, Pipeline
from narthex._ir.expression_nodes import Call, Literal, Node, Ref
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Assignment,
    Change,
    Changelog,
    DatasetRef,
    Dedup,
    DropNull,
    Emit,
    Explode,
    Filter,
    First,
    Join,
    JoinHow,
    Latest,
    Operator,
    Transform,
    Union,
)
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Float, Int, Optional, Str
from narthex._ir.windows import Continuous, Session, Tumbling

Edited = Callable[[str, Callable[[Dataset], Dataset]], Definitions]

ORDERS, USERS, ENRICHED = DatasetRef("Orders"), DatasetRef("Users"), DatasetRef("Enriched")
SPEND = DatasetRef("Spend")
CODE = UserCode(entry="f", source="f = len", python="3.11")
TOTAL = Sum(into="n", window=Continuous("1d"), of="amount")
DAILY = Count(into="n", window=Tumbling("1d"))
BIG = Call("gt", (Ref("amount"), Literal(0.0, Float())))
STATE = "has state"


def _join(left: Operator, right: DatasetRef = USERS) -> Join:
    return Join(left, right, JoinHow.LEFT, (("user", "user"),), None, 0, ("country",))


def _total(input_: Operator = ORDERS, spec: AggregateSpec = TOTAL) -> Aggregate:
    return Aggregate(input_, ("user",), (spec,))


def _assigned(expression: Node) -> Assign:
    return Assign(ORDERS, (Assignment("user", Str(), expression),))


def _ending_in(terminal: Operator) -> Callable[[Dataset], Dataset]:
    pipeline = Pipeline(name="p", inputs=(), terminal=terminal)

    def change(dataset: Dataset) -> Dataset:
        if not isinstance(terminal, Aggregate):
            return attrs.evolve(dataset, pipelines=(pipeline,))
        schema = Schema(
            (
                *(Field(name=name, type=Str(), role=Role.KEY) for name in terminal.by),
                *(Field(name=spec.into, type=Int()) for spec in terminal.specs),
                Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
            )
        )
        return attrs.evolve(dataset, pipelines=(pipeline,), schema=schema)

    return change


def _by_path(blueprint: Blueprint) -> dict[str, AssetBlueprint]:
    return {path: asset for asset in blueprint.assets for path in asset.paths}


def _job(definitions: Definitions, dataset: str = "Spend") -> tuple[PipelineJobSpec, list[str]]:
    asset = _by_path(compile_blueprint(definitions))[f"job/{dataset}/pipeline/p"]
    assert isinstance(asset.spec, PipelineJobSpec)
    assert from_plain(to_plain(asset.spec)) == asset.spec
    return asset.spec, [need.role for need in asset.needs]


@pytest.mark.parametrize(
    ("terminal", "reads", "title"),
    [
        (Transform(ORDERS, (Column("n", Int()),), CODE), ["Orders"], "`transform`"),
        (Dedup(ORDERS, ("user",)), ["Orders"], "`dedup`"),
        (Explode(ORDERS, ("user",)), ["Orders"], "`explode`"),
        (Union(ORDERS, ENRICHED), ["Orders", "Enriched"], "a union"),
        (Union(ORDERS, Filter(ORDERS, BIG)), ["Orders"], "a union"),
        (Changelog(USERS, "gone", Change.DELETE), ["Users"], "`changelog`"),
        (First(ORDERS, ("user",)), ["Orders"], "`first`"),
        (
            Latest(ENRICHED, ("user",)),
            ["Enriched"],
            "the latest row of rows that may still be corrected",
        ),
        (_join(USERS, USERS), ["Users"], "a join whose left side is keyed"),
        (
            _join(_assigned(Ref("user"))),
            ["Orders", "Users"],
            "a join on `user`, which is not a value of `Orders` itself,",
        ),
        (_total(USERS, Count(into="n", window=Continuous("1d"))), ["Users"], "an aggregate over"),
        (attrs.evolve(_total(), along="at"), ["Orders"], "`along`"),
        (
            attrs.evolve(_total(), window=Tumbling("1d"), specs=(DAILY,)),
            ["Orders"],
            "`groupby` with a window",
        ),
        (
            Filter(_total(spec=DAILY), Call("gt", (Ref("n"), Literal(1, Int())))),
            ["Orders"],
            "a step after an aggregate",
        ),
        (
            Filter(Latest(ORDERS, ("user",)), BIG),
            ["Orders"],
            "a step after `latest` that leaves rows out",
        ),
        (
            Latest(Filter(ORDERS, CODE), ("user",)),
            ["Orders"],
            "a step before `latest` that leaves rows out",
        ),
        (
            Latest(AssignCode(ORDERS, Column("n", Int()), CODE), ("user",)),
            ["Orders"],
            "a step before `latest` that leaves rows out",
        ),
    ],
)
def test_a_step_that_needs_earlier_rows_makes_its_job_stateful(
    terminal: Operator, reads: list[str], title: str, edited: Edited
) -> None:
    definitions = edited("Spend", _ending_in(terminal))

    spec, roles = _job(definitions)

    assert spec.trigger is Trigger.STATEFUL
    assert spec.reason.startswith(title)
    assert spec.reason.endswith(STATE)
    assert [one.dataset for one in spec.inputs] == reads
    own = ["output", "checkpoint", *(["quarantine"] if may_fail(terminal) else [])]
    assert sorted(roles) == sorted([*(f"input:{one}" for one in reads), *own])


@pytest.mark.parametrize(
    ("terminal", "trigger"),
    [
        (Latest(Filter(ORDERS, BIG), ("user",)), Trigger.REAL_TIME),
        (Filter(Latest(ORDERS, ("user",)), CODE), Trigger.STAGE),
        (AssignCode(Latest(ORDERS, ("user",)), Column("n", Int()), CODE), Trigger.STAGE),
        (Latest(_assigned(Ref("user")), ("user",)), Trigger.REAL_TIME),
        (attrs.evolve(_total(), emit=Emit.FINAL), Trigger.REAL_TIME),
        (Filter(USERS, CODE), Trigger.STAGE),
        (DropNull(ENRICHED, ("country",)), Trigger.REAL_TIME),
    ],
)
def test_stateless_steps_keep_their_trigger(
    terminal: Operator, trigger: Trigger, edited: Edited
) -> None:
    definitions = edited("Spend", _ending_in(terminal))

    assert _job(definitions)[0].trigger is trigger
    assert not_carried_out(definitions) == ()


@pytest.mark.parametrize(
    ("expression", "leaves_out"),
    [(Ref("user"), False), (Call("div", (Ref("amount"), Ref("amount"))), True)],
)
def test_an_assign_leaves_rows_out_where_it_may_have_no_value(
    expression: Node, leaves_out: bool, shop: Definitions
) -> None:
    step = Assign(Latest(ORDERS, ("user",)), (Assignment("x", Float(), expression),))
    optional = Assign(Latest(ORDERS, ("user",)), (Assignment("x", Optional(Float()), expression),))

    assert [one.state_use for one in _kept(step, shop)] == (
        [StateUse.LATEST_AND_LEFT_OUT] if leaves_out else []
    )
    assert _kept(optional, shop) == []


def _kept(step: Operator, shop: Definitions) -> list[StateRequirement]:
    infos = {one.dataset.name: one.info for one in typed_datasets(shop)}
    return list(state_requirements(step, infos, ()))


def test_both_sides_of_a_union_are_searched(shop: Definitions) -> None:
    other = Dedup(Explode(ORDERS, ("user",)), ("user",))

    found = _kept(Union(ORDERS, other), shop)

    assert [one.state_use for one in found] == [StateUse.EXPLODE, StateUse.DEDUP, StateUse.UNION]


def test_readers_of_a_dataset_get_its_final_aggregate(edited: Edited) -> None:
    definitions = edited("Enriched", _ending_in(_total(ORDERS, DAILY)))
    above = Filter(ENRICHED, Call("gt", (Ref("n"), Literal(1, Int()))))
    spend = _ending_in(above)
    changed = tuple(spend(one) if one.name == "Spend" else one for one in definitions.datasets)

    spec, roles = _job(attrs.evolve(definitions, datasets=changed))

    (given,) = spec.inputs
    assert spec.trigger is Trigger.STATEFUL
    assert given.log.shape is LogShape.CONTRIBUTIONS
    assert given.aggregate == _total(ENRICHED, DAILY)
    assert [one.spec for one in given.aggregates] == [DAILY]
    assert "input:Enriched" in roles


def test_contributions_of_keyed_rows_have_validity_intervals(edited: Edited) -> None:
    by_country = Aggregate(USERS, ("country",), (Count(into="n", window=Continuous("1d")),))
    assets = _by_path(compile_blueprint(edited("Spend", _ending_in(by_country))))

    job, index = assets["job/Spend/pipeline/p"].spec, assets["dataset/Spend/index"].spec

    assert isinstance(job, PipelineJobSpec)
    assert isinstance(index, IndexSpec)
    assert job.operators == USERS
    assert job.log.shape is LogShape.CONTRIBUTIONS
    assert job.log.values == VALIDITY_COLUMNS
    assert job.log.lives
    assert job.log.inputs == ()
    assert not job.log.along
    assert index.log == job.log
    assert index.ladder_us == ()
    assert index.correctable


@pytest.mark.parametrize(("rows", "keyed"), [(ORDERS, False), (USERS, True)])
def test_only_logs_with_validity_intervals_record_along(
    rows: DatasetRef, keyed: bool, edited: Edited
) -> None:
    spec = Count(into="n", window=Tumbling("1d"))
    aggregate = attrs.evolve(_total(rows, spec), along="at")

    definitions = edited("Spend", _ending_in(aggregate))
    job, _ = _job(definitions)
    (plan,) = (one for one in compile_blueprint(definitions).datasets if one.name == "Spend")

    assert (job.along, job.log.along, job.log.lives) == ("at", keyed, keyed)
    assert (plan.ladder_us == ()) == keyed


def test_spans_of_groups_are_rows_that_may_cease_to_exist(edited: Edited) -> None:
    sessions = Session("1h")
    spans = attrs.evolve(
        _total(ORDERS, Count(into="n", window=sessions)), window=sessions, emit=Emit.FINAL
    )
    definitions = edited("Spend", _ending_in(spans))
    (plan,) = (one for one in compile_blueprint(definitions).datasets if one.name == "Spend")
    job, _ = _job(definitions)
    index = _by_path(compile_blueprint(definitions))["dataset/Spend/index"].spec

    assert isinstance(index, IndexSpec)
    assert job.operators == spans
    assert job.log.shape is LogShape.KEYED
    assert (plan.aggregates, plan.ladder_us, index.aggregates) == ((), (), ())
    assert index.correctable


def test_below_rows_that_may_cease_to_exist_keyed_rows_may_too(edited: Edited) -> None:
    latest = Latest(ENRICHED, ("user",))
    definitions = edited("Spend", _ending_in(latest))
    above = next(one for one in definitions.datasets if one.name == "Spend")
    below = attrs.evolve(
        _ending_in(Filter(SPEND, BIG))(above), name="Below", index=Index(online=True, offline=True)
    )
    more = attrs.evolve(definitions, datasets=(*definitions.datasets, below))

    assets = _by_path(compile_blueprint(more))

    assert _job(more, "Below")[0].trigger is Trigger.REAL_TIME
    for name, correctable in (("Spend", True), ("Below", True), ("Users", False)):
        index = assets[f"dataset/{name}/index"].spec
        assert isinstance(index, IndexSpec)
        assert index.correctable is correctable


def test_a_right_side_that_only_such_a_job_joins_is_not_indexed(edited: Edited) -> None:
    unindexed = edited("Users", lambda one: attrs.evolve(one, index=None))
    joined = _ending_in(_join(_assigned(Ref("user"))))
    datasets = tuple(
        joined(one) if one.name == "Enriched" else one
        for one in unindexed.datasets
        if one.name != "Spend"
    )

    paths = _by_path(compile_blueprint(attrs.evolve(unindexed, datasets=datasets)))

    assert "dataset/Users/log" in paths
    assert "dataset/Users/index" not in paths
    assert "job/Enriched/pipeline/p/left" not in paths
