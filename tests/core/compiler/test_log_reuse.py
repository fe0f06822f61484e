"""A version that folds the same rows otherwise goes on with their log; any other has its own."""

from collections.abc import Callable

import attrs
import pytest

from narthex._analysis.fingerprints import contributions_fingerprint, fingerprint
from narthex._analysis.graph import check
from narthex._base.canonical import encode
from narthex._base.records import Value
from narthex._base.times import parse_duration
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.log_reuse import reuse_logs
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir.aggregate_specs import AggregateSpec, Count, LastK, Max, Sum
from narthex._ir.assets import AssetBlueprint, AssetSpec, LogShape, PipelineJobSpec
from narthex._ir.entities import Carried, Dataset, Definitions, Index, Pipeline
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.operators import Aggregate, DatasetRef, Emit, Filter, Operator
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import DataType, Datetime, Float, Int, List, Optional, Str
from narthex._ir.windows import Continuous, Tumbling

Edit = Callable[[Dataset], Dataset]

WEEK = Sum(into="week", window=Continuous("7d"), of="amount")
FILLED = {"log", "history", "history_feed", "pipeline/spend", "pipeline/spend/checkpoint"}
"""The assets that a dataset's history fills, and the jobs that fill them."""


@pytest.fixture
def shop(shop: Definitions) -> Definitions:
    """Return deployed definitions, with the logs that were compiled for them."""
    return reuse_logs(None, shop)


def log_of(definitions: Definitions) -> Carried | None:
    return next(one.carried for one in definitions.datasets if one.name == "Spend")


def raised(dataset: Dataset) -> Dataset:
    return attrs.evolve(dataset, version=dataset.version + 1)


def with_aggregate(dataset: Dataset, change: Callable[[Aggregate], Aggregate]) -> Dataset:
    (pipeline,) = dataset.pipelines
    assert isinstance(pipeline.terminal, Aggregate)
    pipelines = (attrs.evolve(pipeline, terminal=change(pipeline.terminal)),)
    return attrs.evolve(dataset, pipelines=pipelines)


def with_field(dataset: Dataset, name: str, of: DataType) -> Dataset:
    *fields, at = dataset.schema.fields
    return attrs.evolve(dataset, schema=Schema((*fields, Field(name=name, type=of), at)))


def with_spec(dataset: Dataset, spec: AggregateSpec, of: DataType) -> Dataset:
    changed = with_aggregate(dataset, lambda one: attrs.evolve(one, specs=(*one.specs, spec)))
    return raised(with_field(changed, spec.into, of))


def with_week(dataset: Dataset) -> Dataset:
    return with_spec(dataset, WEEK, Float())


def change(definitions: Definitions, name: str, edit: Edit) -> Definitions:
    datasets = tuple(edit(one) if one.name == name else one for one in definitions.datasets)
    return attrs.evolve(definitions, datasets=datasets)


def by_path(definitions: Definitions) -> dict[str, AssetBlueprint]:
    assert check(definitions) == ()
    return {path: asset for asset in compile_blueprint(definitions).assets for path in asset.paths}


def shared(old: Definitions, new: Definitions, name: str = "Spend") -> set[str]:
    """Name what of a dataset two commits share; what they share is to be the same thing."""
    was, now = by_path(old), by_path(new)
    found = {path for path in was.keys() & now.keys() if was[path].ref == now[path].ref}
    for path in found:
        assert was[path].needs == now[path].needs
        assert encode(_made_of(was[path].spec)) == encode(_made_of(now[path].spec))
    return {path.split(f"/{name}/")[1] for path in found if f"/{name}/" in path}


def _made_of(spec: AssetSpec) -> AssetSpec:
    """Return a spec without what a job that fills groups does not use: what is folded of them."""
    if isinstance(spec, PipelineJobSpec) and spec.log.shape is LogShape.CONTRIBUTIONS:
        return attrs.evolve(spec, schema=Schema(()))
    return spec


def test_a_window_more_needs_another_index_and_no_other_rows(shop: Definitions) -> None:
    new = reuse_logs(shop, change(shop, "Spend", with_week))

    assert shared(shop, new) == FILLED


def test_an_aggregate_of_a_logged_column_reuses_the_log(shop: Definitions) -> None:
    largest = Max(into="largest", window=Continuous("1d"), of="amount", default=0.0)

    new = reuse_logs(shop, change(shop, "Spend", lambda one: with_spec(one, largest, Float())))

    assert shared(shop, new) == FILLED


def test_one_aggregate_less_needs_no_other_rows_if_another_folds_its_column(
    shop: Definitions,
) -> None:
    def without_last(dataset: Dataset) -> Dataset:
        fields = tuple(f for f in dataset.schema.fields if f.name != "last")
        less = with_aggregate(dataset, lambda a: attrs.evolve(a, specs=a.specs[:-1]))
        return raised(attrs.evolve(less, schema=Schema(fields)))

    assert shared(shop, reuse_logs(shop, change(shop, "Spend", without_last))) == FILLED


def test_a_version_without_a_previous_commit_has_its_own_log(shop: Definitions) -> None:
    new = change(shop, "Spend", lambda one: attrs.evolve(with_week(one), carried=None))

    assert by_path(reuse_logs(None, new)) == by_path(new)
    assert shared(shop, new) == set()


def _of_country(dataset: Dataset) -> Dataset:
    last = LastK(into="countries", window=Continuous("1d"), of="country", limit=3, dedup=False)
    return with_spec(dataset, last, List(Optional(Str())))


def _other_threshold(dataset: Dataset) -> Dataset:
    def edit(aggregate: Aggregate) -> Aggregate:
        before = aggregate.input
        assert isinstance(before, Filter)
        assert isinstance(before.predicate, Call)
        column = before.predicate.arguments[0]
        other = attrs.evolve(before.predicate, arguments=(column, Literal(5.0, Float())))
        return attrs.evolve(aggregate, input=attrs.evolve(before, predicate=other))

    return with_aggregate(with_week(dataset), edit)


def _other_history(dataset: Dataset) -> Dataset:
    return attrs.evolve(with_week(dataset), history_us=parse_duration("8d"))


def _along(dataset: Dataset) -> Dataset:
    return with_aggregate(with_week(dataset), lambda one: attrs.evolve(one, along="at"))


@pytest.mark.parametrize(
    "edit",
    [
        raised,
        _of_country,
        _other_threshold,
        _other_history,
        _along,
    ],
)
def test_any_other_change_has_a_log_of_its_own(shop: Definitions, edit: Edit) -> None:
    new = reuse_logs(shop, change(shop, "Spend", edit))

    assert shared(shop, new) == set()


@pytest.mark.parametrize(
    "edit",
    [
        {"by": ("country",)},
        {"along": "at"},
        {"emit": Emit.FINAL},
        {"input": DatasetRef("Enriched")},
        {"input": Filter(DatasetRef("Orders"), Ref("is_new"))},
    ],
)
def test_everything_that_affects_contributions_is_in_their_fingerprint(
    edit: dict[str, Value],
) -> None:
    inputs = {name: fingerprint("dataset", name) for name in ("Orders", "Enriched")}
    aggregate = Aggregate(DatasetRef("Orders"), ("user",), (WEEK,))
    same = attrs.evolve(aggregate, specs=())
    found = contributions_fingerprint(aggregate, inputs, 1)

    assert contributions_fingerprint(same, inputs, 1) == found
    assert contributions_fingerprint(attrs.evolve(aggregate, **edit), inputs, 1) != found
    assert contributions_fingerprint(aggregate, inputs, 2) != found


def test_a_change_upstream_is_computed_again(shop: Definitions) -> None:
    both = change(change(shop, "Spend", with_week), "Enriched", raised)

    assert shared(shop, reuse_logs(shop, both)) == set()


def test_versions_reuse_the_first_log_until_one_needs_another(shop: Definitions) -> None:
    second = reuse_logs(shop, change(shop, "Spend", with_week))
    month = Sum(into="month", window=Continuous("30d"), of="amount")
    third = reuse_logs(second, change(second, "Spend", lambda one: with_spec(one, month, Float())))
    again = reuse_logs(third, change(third, "Spend", raised))
    year = Sum(into="year", window=Continuous("365d"), of="amount")
    fifth = reuse_logs(again, change(again, "Spend", lambda one: with_spec(one, year, Float())))

    assert shared(shop, second) == shared(shop, third) == FILLED
    assert shared(third, again) == set()
    assert shared(again, fifth) == FILLED


def test_the_same_again_is_the_same(shop: Definitions) -> None:
    asked = change(shop, "Spend", with_week)
    second = reuse_logs(shop, asked)

    assert reuse_logs(second, asked) == second
    assert reuse_logs(second, second) == second


def test_a_log_is_reused_only_if_it_is_the_same(shop: Definitions) -> None:
    second = reuse_logs(shop, change(shop, "Spend", with_week))
    upstream = change(second, "Enriched", raised)

    assert shared(second, upstream) == set()
    assert shared(shop, reuse_logs(second, upstream)) == set()


def test_a_later_compiler_does_not_rename_the_log_of_a_deployed_dataset(
    shop: Definitions,
) -> None:
    own = log_of(shop)
    assert own is not None
    compiled = attrs.evolve(own, data=b"named by an earlier compiler")
    deployed = change(shop, "Spend", lambda one: attrs.evolve(one, carried=compiled))

    assert log_of(reuse_logs(deployed, change(deployed, "Spend", with_week))) == compiled
    assert log_of(reuse_logs(deployed, deployed)) == compiled
    again = log_of(reuse_logs(deployed, change(deployed, "Spend", raised)))
    assert again is not None
    assert again.data not in {compiled.data, own.data}


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_log_that_another_compiler_laid_out_in_another_way_is_not_reused(
    shop: Definitions, *, is_recorded: bool
) -> None:
    own = log_of(shop)
    assert own is not None
    other = attrs.evolve(own, contributions=b"another layout") if is_recorded else None
    deployed = change(shop, "Spend", lambda one: attrs.evolve(one, carried=other))

    new = reuse_logs(deployed, change(deployed, "Spend", with_week))

    assert new == reuse_logs(None, new)
    assert shared(shop, new) == set()


def test_an_author_cannot_choose_the_log_of_a_dataset(shop: Definitions) -> None:
    wanted = by_path(shop)["dataset/Enriched/log"].fingerprint
    second = reuse_logs(shop, change(shop, "Spend", with_week))
    carried = next(one.carried for one in second.datasets if one.name == "Spend")
    assert carried is not None

    def forge(dataset: Dataset) -> Dataset:
        return attrs.evolve(dataset, carried=Carried(carried.contributions, wanted))

    for deployed in (None, shop, second):
        for name in ("Orders", "Spend"):
            forged = change(shop, name, forge)
            assert reuse_logs(deployed, forged) == reuse_logs(deployed, shop)


def test_readers_of_the_dataset_are_recomputed(shop: Definitions) -> None:
    def by_days(aggregate: Aggregate) -> Aggregate:
        return attrs.evolve(
            aggregate,
            specs=tuple(attrs.evolve(one, window=Tumbling("1d")) for one in aggregate.specs),
        )

    ended = change(shop, "Spend", lambda one: with_aggregate(one, by_days))
    old = attrs.evolve(ended, datasets=(*ended.datasets, _reader()))
    week = attrs.evolve(WEEK, window=Tumbling("7d"))

    new = reuse_logs(old, change(old, "Spend", lambda one: with_spec(one, week, Float())))

    assert shared(old, new) == FILLED
    assert shared(old, new, "Rich") == set()


def _reader() -> Dataset:
    rich: Operator = Filter(DatasetRef("Spend"), Call("gt", (Ref("orders"), Literal(10, Int()))))
    specs = (Count(into="users", window=Continuous("forever")),)
    by_orders = Aggregate(rich, ("orders",), specs)
    fields = (
        Field(name="orders", type=Int(), role=Role.KEY),
        Field(name="users", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
    return Dataset(
        name="Rich",
        version=1,
        schema=Schema(fields),
        pipelines=(Pipeline(name="rich", inputs=("Spend",), terminal=by_orders),),
        index=Index(online=True, offline=True),
        metadata=Metadata(owner="a@b.co"),
    )


def test_the_bundle_records_the_reused_log(shop: Definitions) -> None:
    second = reuse_logs(shop, change(shop, "Spend", with_week))

    body = encode_commit(CommitPayload(message="", definitions=second))

    assert decode_commit(body).definitions == second
