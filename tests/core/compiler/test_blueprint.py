"""Definitions become assets: each once, with what it needs, in an order in which all is there."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from narthex._base.records import from_plain, to_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import (
    AssetBlueprint,
    AssetKind,
    Blueprint,
    IndexSpec,
    LogShape,
    PipelineJobSpec,
    SinkJobSpec,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
    Trigger,
)
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    Action,
    Csv,
    Dataset,
    Definitions,
    Expectation,
    Files,
    KafkaTopic,
    Pipeline,
    Sink,
)
from narthex._ir.operators import AssignCode, DatasetRef, Filter, Join, Latest
from narthex._ir.schema import Column
from narthex._ir.types import Int

Edited = Callable[[str, Callable[[Dataset], Dataset]], Definitions]
CODE = UserCode(entry="f", source="f = len", python="3.11")


def _by_path(blueprint: Blueprint) -> dict[str, AssetBlueprint]:
    return {path: asset for asset in blueprint.assets for path in asset.paths}


def test_every_asset_comes_after_what_it_needs(shop: Definitions) -> None:
    seen = set()
    for asset in compile_blueprint(shop).assets:
        assert {need.asset for need in asset.needs} <= seen, asset.label
        seen.add(asset.ref)


def test_a_blueprint_survives_the_wire(shop: Definitions) -> None:
    blueprint = compile_blueprint(shop)

    assert from_plain(to_plain(blueprint)) == blueprint


def test_a_source_dataset_has_a_log_a_quarantine_and_an_ingest_topic(shop: Definitions) -> None:
    assets = _by_path(compile_blueprint(shop))

    roles = {
        path: (asset.spec.role, asset.spec.partitions)
        for path, asset in assets.items()
        if isinstance(asset.spec, TopicSpec) and ("Users" in path or "users" in path)
    }
    assert roles == {
        "dataset/Users/log": (TopicRole.DATASET, 2),
        "dataset/Users/touched": (TopicRole.INVALIDATION, 2),
        "dataset/Users/quarantine": (TopicRole.QUARANTINE, 1),
        "webhook/shop/users/ingest": (TopicRole.INGEST, 1),
    }


def test_a_source_job_needs_what_it_reads_and_writes(shop: Definitions) -> None:
    assets = _by_path(compile_blueprint(shop))
    job = assets["job/Orders/source/0"]

    assert isinstance(job.spec, SourceJobSpec)
    assert job.spec.source_id == "webhook:shop/orders"
    assert job.spec.trigger is Trigger.STAGE
    assert {need.role: need.asset for need in job.needs} == {
        "input": assets["webhook/shop/orders/ingest"].ref,
        "output": assets["dataset/Orders/log"].ref,
        "quarantine": assets["dataset/Orders/quarantine"].ref,
        "checkpoint": assets["job/Orders/source/0/checkpoint"].ref,
    }


def test_two_datasets_of_one_endpoint_share_its_topic(shop: Definitions) -> None:
    (orders,) = (one for one in shop.datasets if one.name == "Orders")
    twin = attrs.evolve(orders, name="Twin", version=2)

    blueprint = compile_blueprint(attrs.evolve(shop, datasets=(*shop.datasets, twin)))

    ingest = [one for one in blueprint.assets if "webhook/shop/orders/ingest" in one.paths]
    assert len(ingest) == 1


def test_datasets_that_mean_the_same_are_one_asset_with_two_names(shop: Definitions) -> None:
    (orders,) = (one for one in shop.datasets if one.name == "Orders")
    twin = attrs.evolve(orders, name="Twin")

    assets = _by_path(compile_blueprint(attrs.evolve(shop, datasets=(*shop.datasets, twin))))

    assert assets["dataset/Twin/log"] is assets["dataset/Orders/log"]
    assert assets["job/Twin/source/0"].paths == ("job/Orders/source/0", "job/Twin/source/0")


def test_a_join_needs_the_right_index_its_corrections_and_the_left_index(
    shop: Definitions,
) -> None:
    assets = _by_path(compile_blueprint(shop))
    job = assets["job/Enriched/pipeline/join_users"]
    left = assets["job/Enriched/pipeline/join_users/left"]

    assert isinstance(job.spec, PipelineJobSpec)
    assert job.spec.trigger is Trigger.STAGE
    assert job.spec.reason == "join `Users` looks rows up in an index"
    assert [one.dataset for one in job.spec.inputs] == ["Orders", "Users"]
    assert {need.role: need.asset for need in job.needs} == {
        "input:Orders": assets["dataset/Orders/log"].ref,
        "right:Users": assets["dataset/Users/index"].ref,
        "touched:Users": assets["dataset/Users/touched"].ref,
        "left": left.ref,
        "output": assets["dataset/Enriched/log"].ref,
        "checkpoint": assets["job/Enriched/pipeline/join_users/checkpoint"].ref,
    }
    assert isinstance(left.spec, IndexSpec)
    assert left.spec.by == ("user",)
    assert left.spec.log.shape is LogShape.ROWS


def test_a_joined_dataset_is_indexed_automatically(edited: Edited) -> None:
    blueprint = compile_blueprint(edited("Users", lambda one: attrs.evolve(one, index=None)))

    assets = _by_path(blueprint)
    assert {"dataset/Users/index", "dataset/Users/index_feed"} <= set(assets)
    assert [need.role for need in assets["dataset/Users/index_feed"].needs] == [
        "log",
        "index",
        "touched",
    ]


def test_an_aggregate_logs_its_inputs_and_is_folded_in_the_index(shop: Definitions) -> None:
    blueprint = compile_blueprint(shop)
    assets = _by_path(blueprint)
    job = assets["job/Spend/pipeline/spend"].spec
    index = assets["dataset/Spend/index"].spec

    assert isinstance(job, PipelineJobSpec)
    assert isinstance(index, IndexSpec)
    assert isinstance(job.operators, Filter)
    assert job.trigger is Trigger.REAL_TIME
    assert job.log.shape is LogShape.CONTRIBUTIONS
    assert [column.name for column in job.log.keys] == ["user"]
    assert [column.name for column in job.log.values] == ["amount"]
    assert job.inputs[0].correctable
    assert index.correctable
    assert index.ladder_us


def test_values_of_aggregates_come_in_the_order_of_the_fields(shop: Definitions) -> None:
    (plan,) = (one for one in compile_blueprint(shop).datasets if one.name == "Spend")

    values = [column.name for column in plan.schema.values]
    assert [one.spec.into for one in plan.aggregates] == values
    assert values == ["orders", "total", "mean", "last"]


@pytest.mark.parametrize(
    ("terminal", "trigger", "reason"),
    [
        (Latest(DatasetRef("Orders"), ("user",)), Trigger.REAL_TIME, "expressions only"),
        (
            AssignCode(DatasetRef("Orders"), Column("n", Int()), CODE),
            Trigger.STAGE,
            "assign `n` runs Python",
        ),
        (Filter(DatasetRef("Orders"), CODE), Trigger.STAGE, "a filter runs Python"),
    ],
)
def test_a_pipeline_runs_in_real_time_if_it_is_expressions_only(
    terminal: Filter | Latest | AssignCode, trigger: Trigger, reason: str, edited: Edited
) -> None:
    def change(dataset: Dataset) -> Dataset:
        pipeline = attrs.evolve(dataset.pipelines[0], terminal=terminal)
        return attrs.evolve(dataset, pipelines=(pipeline,))

    spec = _by_path(compile_blueprint(edited("Enriched", change)))[
        "job/Enriched/pipeline/join_users"
    ].spec

    assert isinstance(spec, PipelineJobSpec)
    assert (spec.trigger, spec.reason) == (trigger, reason)


@pytest.mark.parametrize(
    ("connector", "bounded", "trigger"),
    [
        (KafkaTopic(name="k", bootstrap_servers="", topic="t"), False, Trigger.STAGE),
        (Files(name="f", path="a.csv", format=Csv()), False, Trigger.MICRO_BATCH),
        (Files(name="f", path="a.csv", format=Csv()), True, Trigger.BOUNDED),
    ],
)
def test_a_source_runs_as_its_connector_allows(
    connector: KafkaTopic | Files, bounded: bool, trigger: Trigger, edited: Edited
) -> None:
    def change(dataset: Dataset) -> Dataset:
        source = attrs.evolve(dataset.sources[0], connector=connector, bounded=bounded)
        return attrs.evolve(dataset, sources=(source,))

    job = _by_path(compile_blueprint(edited("Orders", change)))["job/Orders/source/0"]

    assert isinstance(job.spec, SourceJobSpec)
    assert job.spec.trigger is trigger
    assert "input" not in [need.role for need in job.needs]


def test_two_joins_have_a_left_index_each(shop: Definitions, edited: Edited) -> None:
    (users,) = (one for one in shop.datasets if one.name == "Users")
    both = edited("Enriched", _joining_twice)
    more = attrs.evolve(both, datasets=(*both.datasets, attrs.evolve(users, name="Shops")))

    job = _by_path(compile_blueprint(more))["job/Enriched/pipeline/join_users"]

    roles = [need.role for need in job.needs]
    assert {"left", "left:Shops", "right:Users", "right:Shops", "touched:Shops"} <= set(roles)


def _joining_twice(dataset: Dataset) -> Dataset:
    (pipeline,) = dataset.pipelines
    first = pipeline.terminal
    assert isinstance(first, Join)
    second = attrs.evolve(first, input=first, right=DatasetRef("Shops"), fields=())
    return attrs.evolve(dataset, pipelines=(attrs.evolve(pipeline, terminal=second),))


def test_every_dataset_keeps_its_history(shop: Definitions) -> None:
    kinds = [asset.kind for asset in compile_blueprint(shop).assets]

    assert kinds.count(AssetKind.HISTORY) == len(shop.datasets)
    assert kinds.count(AssetKind.HISTORY_FEED) == len(shop.datasets)


def test_a_sink_is_a_job_that_reads_the_log_and_how_often_it_writes_is_not_what_it_is(
    shop: Definitions, edited: Edited
) -> None:
    told = KafkaTopic(name="bus", bootstrap_servers="b:1", topic="told")

    def sunk(**options: Any) -> Blueprint:
        def change(dataset: Dataset) -> Dataset:
            return attrs.evolve(dataset, sinks=(Sink(target=told, **options),))

        return compile_blueprint(edited("Enriched", change))

    plain, seldom, other = sunk(), sunk(every_us=5), sunk(since_us=7)
    jobs = [_by_path(made)["job/Enriched/sink/0"] for made in (plain, seldom, other)]
    spec = jobs[0].spec
    assets = _by_path(plain)
    assert isinstance(spec, SinkJobSpec)
    assert spec.trigger is Trigger.STAGE
    assert {need.role: need.asset for need in jobs[0].needs} == {
        "input:Enriched": assets["dataset/Enriched/log"].ref,
        "checkpoint": assets["job/Enriched/sink/0/checkpoint"].ref,
    }
    assert jobs[0].fingerprint == jobs[1].fingerprint
    assert jobs[0].fingerprint != jobs[2].fingerprint
    before = {asset.ref for asset in compile_blueprint(shop).assets}
    assert before < {asset.ref for asset in plain.assets}


def _kept_for(history_us: int) -> Callable[[Dataset], Dataset]:
    return lambda dataset: attrs.evolve(dataset, history_us=history_us)


def _index_of(definitions: Definitions, dataset: str) -> IndexSpec:
    spec = _by_path(compile_blueprint(definitions))[f"dataset/{dataset}/index"].spec
    assert isinstance(spec, IndexSpec)
    return spec


def test_an_index_that_a_join_reads_does_not_expire(edited: Edited) -> None:
    bounded = edited("Users", _kept_for(86_400_000_000))
    alone = Definitions(
        datasets=tuple(one for one in bounded.datasets if one.name == "Users"), featuresets=()
    )

    joined, unjoined = _index_of(bounded, "Users"), _index_of(alone, "Users")

    assert (joined.history_us, joined.expires) == (86_400_000_000, False)
    assert (unjoined.history_us, unjoined.expires) == (86_400_000_000, True)
    ref = _by_path(compile_blueprint(bounded))["dataset/Users/index"].ref
    assert ref != _by_path(compile_blueprint(alone))["dataset/Users/index"].ref


def test_an_index_of_rows_that_may_be_retracted_does_not_expire(edited: Edited) -> None:
    bounded = edited("Spend", _kept_for(86_400_000_000))

    spec = _index_of(bounded, "Spend")

    assert (spec.correctable, spec.history_us, spec.expires) == (True, 86_400_000_000, False)


def _enforcing(action: Action) -> Callable[[Dataset], Dataset]:
    return lambda one: attrs.evolve(
        one,
        expectations=(
            Expectation(
                kind="expect_column_values_to_not_be_null",
                arguments=(("column", one.schema.fields[0].name),),
                action=action,
            ),
        ),
    )


def _fingerprints(definitions: Definitions) -> dict[str, bytes]:
    return {path: one.fingerprint for path, one in _by_path(compile_blueprint(definitions)).items()}


@pytest.mark.parametrize("action", [Action.QUARANTINE, Action.DROP])
def test_an_enforced_expectation_makes_a_log_and_its_jobs_new(
    shop: Definitions, edited: Edited, action: Action
) -> None:
    before = _fingerprints(shop)
    after = _fingerprints(edited("Users", _enforcing(action)))

    new = {path for path, found in after.items() if before.get(path) != found}
    assert {"dataset/Users/log", "job/Users/source/0"} <= new
    assert not any("Orders/" in path and "job" not in path for path in new)


def test_an_expectation_that_warns_changes_no_asset(shop: Definitions, edited: Edited) -> None:
    assert _fingerprints(edited("Users", _enforcing(Action.WARN))) == _fingerprints(shop)


def test_a_computed_dataset_with_enforced_expectations_has_a_stage_and_a_quarantine(
    shop: Definitions,
) -> None:
    rows = next(one for one in shop.datasets if one.name == "Orders")
    big = Dataset(
        name="Copied",
        version=1,
        schema=rows.schema,
        pipelines=(Pipeline(name="all", inputs=("Orders",), terminal=DatasetRef("Orders")),),
        metadata=rows.metadata,
    )

    def job(action: Action) -> tuple[Trigger, bool]:
        one = _enforcing(action)(big)
        made = _by_path(compile_blueprint(attrs.evolve(shop, datasets=(*shop.datasets, one))))[
            "job/Copied/pipeline/all"
        ]
        assert isinstance(made.spec, PipelineJobSpec)
        return made.spec.trigger, "quarantine" in {need.role for need in made.needs}

    assert job(Action.WARN) == (Trigger.REAL_TIME, False)
    assert job(Action.DROP) == (Trigger.STAGE, False)
    assert job(Action.QUARANTINE) == (Trigger.STAGE, True)
