"""A changed meaning needs a higher version; changed metadata needs none."""

from collections.abc import Callable

import attrs
import pytest

from narthex._analysis.causes import change_causes
from narthex._analysis.changes import changes_by_entity, compare
from narthex._analysis.graph import check
from narthex._base.origin import Origin
from narthex._ir.code import Requirement
from narthex._ir.entities import (
    Action,
    AliasExtractor,
    Cdc,
    CodeExtractor,
    Dataset,
    Definitions,
    Expectation,
    Featureset,
    Index,
    KafkaTopic,
    LookupExtractor,
    Sample,
    Sink,
)
from narthex._ir.expression_nodes import Call, Literal
from narthex._ir.operators import Aggregate, Filter
from narthex._ir.schema import Field, Metadata, Schema
from narthex._ir.types import Float, Int
from narthex._ir.windows import Continuous

Edit = Callable[[Dataset], Dataset]
Edited = Callable[[str, Edit], Definitions]


def _threshold(dataset: Dataset) -> Dataset:
    (pipeline,) = dataset.pipelines
    aggregate = pipeline.terminal
    assert isinstance(aggregate, Aggregate)
    assert isinstance(aggregate.input, Filter)
    predicate = aggregate.input.predicate
    assert isinstance(predicate, Call)
    other = attrs.evolve(predicate, arguments=(predicate.arguments[0], Literal(5.0, Float())))
    changed = attrs.evolve(aggregate, input=attrs.evolve(aggregate.input, predicate=other))
    return attrs.evolve(dataset, pipelines=(attrs.evolve(pipeline, terminal=changed),))


@pytest.mark.parametrize(("old", "new"), [(None, 4), (4, 8), (8, 2), (4, 1)])
def test_another_number_of_partitions_needs_a_higher_version(
    edited: Edited, old: int | None, new: int
) -> None:
    def divided(number: int | None, version: int) -> Definitions:
        return edited("Orders", lambda one: attrs.evolve(one, partitions=number, version=version))

    (error,) = compare(divided(old, 1), divided(new, 1), incremental=False).errors
    raised = compare(divided(old, 1), divided(new, 2), incremental=False)

    assert f"`partitions` was `{old or 2}`, is `{new}`" in str(error)
    assert "raise version to 2" in str(error)
    assert raised.errors == ()


@pytest.mark.parametrize(("old", "new"), [(4, None), (None, 2), (2, None), (16, 16)])
def test_a_dataset_without_a_number_of_partitions_has_the_one_that_is_deployed(
    edited: Edited, old: int | None, new: int | None
) -> None:
    def divided(number: int | None) -> Definitions:
        return edited("Orders", lambda one: attrs.evolve(one, partitions=number))

    assert compare(divided(old), divided(new), incremental=False).errors == ()


def test_everything_may_be_new(shop: Definitions) -> None:
    changes = compare(None, shop, incremental=False)

    assert changes.errors == ()
    assert changes.definitions == shop
    assert "+ dataset `Orders` v1" in changes.summary


def test_the_same_again_changes_nothing(shop: Definitions) -> None:
    changes = compare(shop, shop, incremental=False)

    assert (changes.errors, changes.summary) == ((), ())


def test_a_changed_pipeline_without_a_higher_version_is_reported(
    shop: Definitions, edited: Edited
) -> None:
    (error,) = compare(shop, edited("Spend", _threshold), incremental=False).errors

    assert error.code == "NX807"
    assert error.message.startswith("dataset `Spend` changed but its version is still 1: `pipeline")
    assert error.message.endswith("was `0.0`, is `5.0`")
    assert error.hint == "raise version to 2"
    assert error.origin.line == 41


def test_a_changed_field_is_named(shop: Definitions, edited: Edited) -> None:
    def retyped(dataset: Dataset) -> Dataset:
        fields = tuple(
            attrs.evolve(one, type=Int()) if one.name == "amount" else one
            for one in dataset.schema.fields
        )
        return attrs.evolve(dataset, schema=Schema(fields))

    (error,) = compare(shop, edited("Orders", retyped), incremental=True).errors

    assert "`schema.fields.amount.type` was `float`, is `int`" in error.message


def test_an_added_field_is_named(shop: Definitions, edited: Edited) -> None:
    def wider(dataset: Dataset) -> Dataset:
        fields = (*dataset.schema.fields, Field(name="n", type=Int()))
        return attrs.evolve(dataset, schema=Schema(fields))

    (error,) = compare(shop, edited("Orders", wider), incremental=True).errors

    assert "`schema.fields.n` is new" in error.message


@pytest.mark.parametrize("incremental", [True, False])
def test_a_raised_version_allows_it(
    shop: Definitions, edited: Edited, *, incremental: bool
) -> None:
    raised = edited("Spend", lambda one: attrs.evolve(_threshold(one), version=2))

    changes = compare(shop, raised, incremental=incremental)

    assert changes.errors == ()
    assert changes.summary == ("~ dataset `Spend` v1 → v2",)


def test_a_version_never_falls(shop: Definitions, edited: Edited) -> None:
    raised = edited("Spend", lambda one: attrs.evolve(one, version=3))

    (error,) = compare(raised, shop, incremental=True).errors

    assert error.message == "dataset `Spend` has version 1; version 3 is deployed"


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": Metadata(owner="z@z.co", tags=("t",))},
        {"index": Index(online=True, offline=False)},
    ],
)
def test_changed_metadata_needs_no_version(
    change: dict[str, object], shop: Definitions, edited: Edited
) -> None:
    changes = compare(
        shop, edited("Spend", lambda one: attrs.evolve(one, **change)), incremental=True
    )

    assert changes.errors == ()
    assert changes.summary == ("i dataset `Spend`: its metadata or its index",)


def test_a_moved_definition_is_unchanged(shop: Definitions, edited: Edited) -> None:
    moved = edited("Spend", lambda one: attrs.evolve(one, origin=Origin(file="z.py", line=1)))

    assert compare(shop, moved, incremental=True).summary == ()


def _with_code(shop: Definitions, change: Callable[[CodeExtractor], CodeExtractor]) -> Definitions:
    (featureset,) = shop.featuresets
    extractors = tuple(
        change(one) if isinstance(one, CodeExtractor) else one for one in featureset.extractors
    )
    return attrs.evolve(shop, featuresets=(attrs.evolve(featureset, extractors=extractors),))


def test_changed_code_of_an_extractor_needs_a_higher_version(shop: Definitions) -> None:
    def change(extractor: CodeExtractor) -> CodeExtractor:
        source = extractor.code.source.replace("* 2", "* 3")
        return attrs.evolve(extractor, code=attrs.evolve(extractor.code, source=source))

    (error,) = compare(shop, _with_code(shop, change), incremental=True).errors
    raised = _with_code(shop, lambda one: attrs.evolve(change(one), version=2))

    assert "extractor of `F.risk` changed but its version is still 1" in error.message
    assert "total * 3" in error.message
    assert compare(shop, raised, incremental=True).errors == ()


def test_another_version_of_a_library_is_not_a_change_of_the_author(shop: Definitions) -> None:
    def change(extractor: CodeExtractor) -> CodeExtractor:
        newer = (Requirement(distribution="pandas", version="9"),)
        return attrs.evolve(extractor, code=attrs.evolve(extractor.code, requires=newer))

    assert compare(shop, _with_code(shop, change), incremental=True).errors == ()


def test_a_changed_default_needs_a_higher_version(shop: Definitions) -> None:
    (featureset,) = shop.featuresets
    first = featureset.extractors[0]
    assert isinstance(first, LookupExtractor)
    extractors = (attrs.evolve(first, default=9.0), *featureset.extractors[1:])
    changed = attrs.evolve(shop, featuresets=(attrs.evolve(featureset, extractors=extractors),))

    (error,) = compare(shop, changed, incremental=False).errors

    assert "default` was `0.0`, is `9.0`" in error.message


def test_an_incremental_commit_keeps_what_it_does_not_name(shop: Definitions) -> None:
    one = Definitions(datasets=shop.datasets[:1], featuresets=())

    kept = compare(shop, one, incremental=True)
    whole = compare(shop, one, incremental=False)

    assert {dataset.name for dataset in kept.definitions.datasets} == {
        dataset.name for dataset in shop.datasets
    }
    assert kept.definitions.featuresets == shop.featuresets
    assert whole.definitions == one
    assert "- dataset `Spend` v1" in whole.summary
    assert "- featureset `F`" in whole.summary


def _deleted(shop: Definitions, name: str) -> Definitions:
    def mark(one: Dataset | Featureset) -> Dataset | Featureset:
        return attrs.evolve(one, metadata=attrs.evolve(one.metadata, deleted=True))

    return Definitions(
        datasets=tuple(mark(d) for d in shop.datasets if d.name == name),  # type: ignore[misc]
        featuresets=tuple(mark(f) for f in shop.featuresets if f.name == name),  # type: ignore[misc]
    )


@pytest.mark.parametrize(("name", "line"), [("Spend", "- dataset `Spend` v1"), ("F", "- featureset `F`")])  # fmt: skip # noqa: E501
def test_an_incremental_commit_removes_what_is_marked_as_deleted(
    shop: Definitions, name: str, line: str
) -> None:
    changes = compare(shop, _deleted(shop, name), incremental=True)

    left = [dataset.name for dataset in changes.definitions.datasets]
    left += [featureset.name for featureset in changes.definitions.featuresets]
    assert name not in left
    assert len(left) == len(shop.datasets) + len(shop.featuresets) - 1
    assert (changes.errors, changes.summary) == ((), (line,))


def test_the_check_reports_uses_of_a_removed_dataset(shop: Definitions) -> None:
    changes = compare(shop, _deleted(shop, "Users"), incremental=True)

    assert {error.code for error in check(changes.definitions)} == {"NX801"}


def test_a_whole_commit_does_not_carry_what_is_marked_as_deleted(shop: Definitions) -> None:
    deleted = _deleted(shop, "Spend")
    rest = tuple(one for one in shop.datasets if one.name != "Spend")
    asked = attrs.evolve(shop, datasets=(*rest, *deleted.datasets), featuresets=())

    changes = compare(shop, asked, incremental=False)

    assert changes.definitions.datasets == rest
    assert "- dataset `Spend` v1" in changes.summary


def _with_featureset(shop: Definitions, **change: object) -> Definitions:
    return attrs.evolve(shop, featuresets=(attrs.evolve(shop.featuresets[0], **change),))


def test_a_feature_goes_from_an_incremental_commit_only_if_it_is_marked(shop: Definitions) -> None:
    (featureset,) = shop.featuresets
    extractors = tuple(
        one for one in featureset.extractors if getattr(one, "feature", "") != "spent"
    )
    without = tuple(one for one in featureset.features if one.name != "spent")
    marked = tuple(
        attrs.evolve(one, metadata=Metadata(deleted=True)) if one.name == "spent" else one
        for one in featureset.features
    )

    left_out = compare(
        shop, _with_featureset(shop, features=without, extractors=extractors), incremental=True
    )
    removed = compare(
        shop, _with_featureset(shop, features=marked, extractors=extractors), incremental=True
    )

    assert [error.code for error in left_out.errors] == ["NX601"]
    assert removed.errors == ()
    assert "spent" not in [one.name for one in removed.definitions.featuresets[0].features]


def test_features_that_get_another_extractor_need_a_higher_version(shop: Definitions) -> None:
    (featureset,) = shop.featuresets
    *others, risk = featureset.extractors
    assert isinstance(risk, CodeExtractor)
    alias = AliasExtractor(feature="risk", source="F.total", version=1)
    both = attrs.evolve(risk, outputs=("risk", "spent"))
    single = [one for one in others if getattr(one, "feature", "") != "spent"]

    (swapped,) = compare(
        shop, _with_featureset(shop, extractors=(*others, alias)), incremental=True
    ).errors
    (widened,) = compare(
        shop, _with_featureset(shop, extractors=(*single, both)), incremental=True
    ).errors
    raised = attrs.evolve(both, version=2)
    allowed = compare(shop, _with_featureset(shop, extractors=(*single, raised)), incremental=True)

    assert swapped.code == widened.code == "NX807"
    assert "was 2 extractors, is one" in widened.message
    assert allowed.errors == ()
    (narrowed,) = compare(allowed.definitions, shop, incremental=True).errors[1:]
    assert narrowed.message == "extractor of `F.risk` has version 1; version 2 is deployed"


def test_a_version_of_an_extractor_never_falls(shop: Definitions) -> None:
    lower = _with_code(shop, lambda one: attrs.evolve(one, version=0))

    (error,) = compare(shop, lower, incremental=True).errors

    assert error.message == "extractor of `F.risk` has version 0; version 1 is deployed"


def test_sinks_and_expectations_change_no_row(shop: Definitions, edited: Edited) -> None:
    topic = KafkaTopic(name="k", bootstrap_servers="", topic="out")
    promise = Expectation(kind="expect_column_values_to_not_be_null", arguments=())
    changes = compare(
        shop,
        edited(
            "Spend",
            lambda one: attrs.evolve(one, sinks=(Sink(target=topic),), expectations=(promise,)),
        ),
        incremental=True,
    )

    assert changes.errors == ()
    assert changes.summary == ("i dataset `Spend`: its metadata or its index",)


def test_a_sample_or_another_way_of_rows_to_change_a_dataset_needs_a_higher_version(
    shop: Definitions, edited: Edited
) -> None:
    def sampled(one: Dataset) -> Dataset:
        return attrs.evolve(
            one, sources=(attrs.evolve(one.sources[0], sample=Sample(0.5, ("user",))),)
        )

    def enveloped(one: Dataset) -> Dataset:
        return attrs.evolve(one, sources=(attrs.evolve(one.sources[0], cdc=Cdc.DEBEZIUM),))

    for change in (sampled, enveloped):
        (error,) = compare(shop, edited("Users", change), incremental=True).errors
        assert error.code == "NX807"
        assert "`sources" in error.message


def test_an_extractor_that_gives_other_features_needs_a_higher_version(shop: Definitions) -> None:
    (featureset,) = shop.featuresets
    others = [one for one in featureset.extractors if getattr(one, "feature", "") != "spent"]
    *rest, risk = others
    assert isinstance(risk, CodeExtractor)
    both = _with_featureset(shop, extractors=(*rest, attrs.evolve(risk, outputs=("risk", "spent"))))

    (error,) = compare(
        both, _with_featureset(shop, extractors=(*rest, risk)), incremental=True
    ).errors

    assert "`outputs` was `F.risk`, `F.spent`, is `F.risk`" in error.message


def _enforcing(action: Action, version: int = 1) -> Callable[[Dataset], Dataset]:
    positive = Expectation(
        kind="expect_column_values_to_not_be_null", arguments=(("column", "uid"),), action=action
    )
    return lambda one: attrs.evolve(one, expectations=(positive,), version=version)


def test_an_enforced_expectation_needs_a_higher_version_and_is_a_cause(
    shop: Definitions, edited: Edited
) -> None:
    enforcing = edited("Orders", _enforcing(Action.QUARANTINE))
    raised = edited("Orders", _enforcing(Action.QUARANTINE, version=2))

    (error,) = compare(shop, enforcing, incremental=False).errors
    assert error.message.startswith(
        "dataset `Orders` changed but its version is still 1: `enforced expectations"
    )
    assert compare(shop, raised, incremental=False).errors == ()
    (cause,) = change_causes(shop, raised)
    assert cause.entity == "dataset `Orders`"
    assert cause.difference is not None
    assert cause.difference.path.startswith("enforced expectations")


def test_an_expectation_that_warns_needs_no_version_and_causes_nothing(
    shop: Definitions, edited: Edited
) -> None:
    warning = edited("Orders", _enforcing(Action.WARN))

    assert compare(shop, warning, incremental=False).errors == ()
    assert change_causes(shop, warning) == ()


def test_causes_are_written_as_authors_write_them(shop: Definitions, edited: Edited) -> None:
    def longer(dataset: Dataset) -> Dataset:
        (pipeline,) = dataset.pipelines
        terminal = pipeline.terminal
        assert isinstance(terminal, Aggregate)
        first, *rest = terminal.specs
        specs = (attrs.evolve(first, window=Continuous("36h")), *rest)
        changed = attrs.evolve(pipeline, terminal=attrs.evolve(terminal, specs=specs))
        return attrs.evolve(dataset, pipelines=(changed,))

    def narrower(dataset: Dataset) -> Dataset:
        return attrs.evolve(dataset, schema=Schema(dataset.schema.fields[1:]))

    def turned(dataset: Dataset) -> Dataset:
        return attrs.evolve(dataset, schema=Schema(dataset.schema.fields[::-1]))

    def said(name: str, edit: Edit) -> str:
        return str(change_causes(shop, edited(name, edit))[0].difference)

    first = shop.datasets[0].schema.fields[0].name
    assert said("Spend", longer) == ("`pipeline.specs.total.window.duration` was `1d`, is `1d 12h`")
    assert said("Orders", narrower) == f"`schema.fields.{first}` is removed"
    assert said("Orders", turned).startswith(f"`schema.fields` was `{first}, ")
    assert said("Users", lambda one: attrs.evolve(one, history_us=7_200_000_000)) == (
        "`history` was `forever`, is `2h`"
    )


def test_changes_are_found_by_entity(edited: Edited, shop: Definitions) -> None:
    raised = edited("Spend", lambda one: attrs.evolve(_threshold(one), version=2))
    without = attrs.evolve(shop, datasets=shop.datasets[:1], featuresets=())

    assert changes_by_entity(shop, raised) == {("dataset", "Spend"): ("~ dataset `Spend` v1 → v2",)}
    assert changes_by_entity(shop, shop) == {}
    lost = changes_by_entity(shop, without)
    assert lost == {
        **{
            ("dataset", one.name): (f"- dataset `{one.name}` v{one.version}",)
            for one in shop.datasets[1:]
        },
        **{("featureset", one.name): (f"- featureset `{one.name}`",) for one in shop.featuresets},
    }
    assert changes_by_entity(None, without) == {
        ("dataset", shop.datasets[0].name): (f"+ dataset `{shop.datasets[0].name}` v1",)
    }


def test_a_feature_that_is_left_out_is_a_change_of_its_featureset(shop: Definitions) -> None:
    one = shop.featuresets[0]
    gone = one.features[-1].name
    less = attrs.evolve(one, features=one.features[:-1])
    changed = attrs.evolve(shop, featuresets=(less, *shop.featuresets[1:]))

    assert changes_by_entity(shop, changed) == {
        ("featureset", one.name): (f"- feature `{one.name}.{gone}`",)
    }
    assert f"- feature `{one.name}.{gone}`" in compare(shop, changed, incremental=False).summary
