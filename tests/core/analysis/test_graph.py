"""A check reports all mistakes of definitions at once, in source order."""

from collections.abc import Callable

import attrs
import pytest

from narthex._analysis.graph import check
from narthex._analysis.schemas.pipelines import all_steps
from narthex._base.times import parse_duration
from narthex._ir.aggregate_specs import Sum
from narthex._ir.entities import (
    Cdc,
    Constant,
    Dataset,
    Definitions,
    ExpressionExtractor,
    Featureset,
    LookupExtractor,
    Pipeline,
    Where,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.operators import (
    Aggregate,
    Assign,
    Assignment,
    DatasetRef,
    Drop,
    DropNull,
    Filter,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
    Select,
)
from narthex._ir.schema import Column, Field, Metadata, Role, Schema
from narthex._ir.types import Bool, Datetime, Float, Int, Str
from narthex._ir.windows import Continuous, Hopping, Tumbling, Window
from narthex.errors import DefinitionError

Edit = Callable[[Dataset], Dataset]
Edited = Callable[[str, Edit], Definitions]
ORDERS = DatasetRef("Orders")


def _codes(errors: tuple[DefinitionError, ...]) -> list[str]:
    return [error.code for error in errors]


def _ending_in(terminal: Operator) -> Edit:
    def change(dataset: Dataset) -> Dataset:
        pipeline = attrs.evolve(dataset.pipelines[0], terminal=terminal)
        return attrs.evolve(dataset, pipelines=(pipeline,))

    return change


def _with_one_more(shop: Definitions, terminal: Operator) -> Definitions:
    (enriched,) = (one for one in shop.datasets if one.name == "Enriched")
    more = attrs.evolve(_ending_in(terminal)(enriched), name="More")
    return attrs.evolve(shop, datasets=(*shop.datasets, more))


def test_correct_definitions_have_no_errors(shop: Definitions) -> None:
    assert check(shop) == ()


def test_all_errors_are_reported_at_once_in_source_order(shop: Definitions) -> None:
    datasets = tuple(attrs.evolve(one, metadata=Metadata()) for one in reversed(shop.datasets))
    wrong = attrs.evolve(shop, datasets=datasets)

    errors = check(wrong)

    assert _codes(errors) == ["NX804"] * 4
    assert [error.origin.line for error in errors] == [11, 21, 31, 41]


def test_an_unknown_column_is_answered_with_the_one_that_was_meant(edited: Edited) -> None:
    wrong = edited("Enriched", _ending_in(Drop(ORDERS, ("amuont",))))

    errors = check(wrong)

    assert "column `amuont` is not in the input; it has `user`, `amount`, `at`" in str(errors[0])
    assert errors[0].hint == "did you mean `amount`?"


@pytest.mark.parametrize(
    ("terminal", "code", "said"),
    [
        (Filter(ORDERS, Ref("amount")), "NX401", "not `bool`"),
        (Filter(ORDERS, Call("gt", (Ref("user"), Literal(1, Int())))), "NX401", "filter"),
        (Assign(ORDERS, (Assignment("n", Int(), Ref("amount")),)), "NX401", "not `int`"),
        (Assign(ORDERS, (Assignment("at", Int(), Ref("amount")),)), "NX204", "event time"),
        (Select(ORDERS, ("nothing",)), "NX202", "`nothing`"),
        (Drop(ORDERS, ("at",)), "NX204", "event time"),
        (Rename(ORDERS, (("amount", "user"),)), "NX203", "`user`"),
        (Rename(ORDERS, (("price", "cost"),)), "NX202", "`price`"),
        (DropNull(ORDERS, ("amount",)), "NX205", "no null"),
        (Latest(ORDERS, ("amount",)), "NX204", "cannot be a key"),
        (Latest(ORDERS, ("at",)), "NX204", "event time"),
        (Latest(DatasetRef("Users"), ("country",)), "NX205", "keyless rows"),
        (DatasetRef("Spend"), "NX208", "cannot feed"),
        (Aggregate(ORDERS, ("user",), ()), "NX301", "the aggregate has no input"),
        (
            Aggregate(ORDERS, ("user",), (Sum(into="s", window=Continuous("1h"), of="user"),)),
            "NX301",
            "it takes a number",
        ),
        (
            Aggregate(
                ORDERS,
                ("user",),
                (
                    Sum(into="s", window=Tumbling("1h"), of="amount"),
                    Sum(into="t", window=Continuous("1h"), of="amount"),
                ),
            ),
            "NX302",
            "all are of one kind",
        ),
        (
            Aggregate(
                DatasetRef("Users"),
                ("country",),
                (Sum(into="s", window=Continuous("1h"), of="country"),),
            ),
            "NX301",
            "it takes a number",
        ),
    ],
)
def test_a_step_that_cannot_be_is_refused(
    terminal: Operator, code: str, said: str, shop: Definitions
) -> None:
    errors = check(_with_one_more(shop, terminal))

    assert any(error.code == code and said in error.message for error in errors), errors


def _join(**changes: object) -> Join:
    join = Join(
        ORDERS, DatasetRef("Users"), JoinHow.LEFT, (("user", "user"),), None, 0, ("country",)
    )
    return attrs.evolve(join, **changes)


@pytest.mark.parametrize(
    ("terminal", "said"),
    [
        (_join(on=()), "the key of `Users` is `user`"),
        (_join(on=(("amount", "user"),)), "has type `float`"),
        (_join(on=(("usr", "user"),)), "column `usr` is not in the left side"),
        (_join(fields=("city",)), "column `city` is not in the values of `Users`"),
        (_join(fields=("at",)), "column `at` of `Users` is in the left side already"),
        (_join(right=DatasetRef("Orders"), fields=()), "has no key"),
        (_join(right=DatasetRef("Spend"), fields=()), "ends in an aggregate"),
        (_join(input=DatasetRef("Users"), fields=(), within_high_us=-1), "is negative"),
    ],
)
def test_a_join_that_cannot_be_is_refused(terminal: Join, said: str, shop: Definitions) -> None:
    errors = check(_with_one_more(shop, terminal))

    assert any(said in error.message for error in errors), errors


def test_a_joined_column_may_have_been_renamed_before(edited: Edited) -> None:
    renamed = Rename(ORDERS, (("user", "buyer"),))
    back = Rename(_join(input=renamed, on=(("buyer", "user"),)), (("buyer", "user"),))

    assert check(edited("Enriched", _ending_in(back))) == ()


def test_a_pipeline_gives_what_its_dataset_declares(edited: Edited) -> None:
    def narrower(dataset: Dataset) -> Dataset:
        kept = tuple(
            attrs.evolve(field, type=Int()) if field.name == "amount" else field
            for field in dataset.schema.fields
            if field.name != "country"
        )
        return attrs.evolve(dataset, schema=Schema((*kept, Field(name="city", type=Str()))))

    messages = [error.message for error in check(edited("Enriched", narrower))]

    title = "pipeline `Enriched.join_users`"
    assert f"{title} gives the value `amount` as `float`; `Enriched` declares `int`" in messages
    assert f"{title} gives the value `country`, which `Enriched` does not declare" in messages
    assert f"{title} does not give the value `city` of `Enriched`" in messages


def test_a_dataset_that_is_not_in_the_commit_is_named_at_each_reader(shop: Definitions) -> None:
    wrong = attrs.evolve(shop, datasets=shop.datasets[1:])

    errors = check(wrong)

    assert _codes(errors) == ["NX801"]
    assert "`Orders` feeds `Enriched.join_users`" in errors[0].message


def test_datasets_that_feed_each_other_are_refused(edited: Edited) -> None:
    wrong = edited("Enriched", _ending_in(_join(input=DatasetRef("Enriched"))))

    assert "NX803" in _codes(check(wrong))


def test_a_dataset_is_filled_by_one_kind_of_thing(shop: Definitions, edited: Edited) -> None:
    source = shop.datasets[0].sources
    both = edited("Enriched", lambda one: attrs.evolve(one, sources=source))
    twice = edited("Enriched", lambda one: attrs.evolve(one, pipelines=one.pipelines * 2))

    assert _codes(check(both)) == ["NX805"]
    assert _codes(check(twice)) == ["NX808"]


def test_cdc_fits_the_keys(edited: Edited) -> None:
    def append(dataset: Dataset) -> Dataset:
        return attrs.evolve(
            dataset, sources=tuple(attrs.evolve(one, cdc=Cdc.APPEND) for one in dataset.sources)
        )

    assert _codes(check(edited("Users", append))) == ["NX806"]


def test_preproc_and_where_are_typed(edited: Edited) -> None:
    where = Where(Call("add", (Ref("n"), Literal(1, Int()))), (Column("n", Int()),))

    def change(dataset: Dataset) -> Dataset:
        source = attrs.evolve(
            dataset.sources[0],
            preproc=(("amount", Constant("x")), ("amout", Constant(1.0))),
            where=where,
        )
        return attrs.evolve(dataset, sources=(source,))

    errors = check(edited("Orders", change))

    assert _codes(errors) == ["NX502"] * 3
    assert "the constant `'x'` is not of type `float`" in errors[0].message
    assert errors[1].hint == "did you mean `amount`?"
    assert "`where` is of type `int`" in errors[2].message


def _with_extractor(shop: Definitions, position: int, extractor: object) -> Definitions:
    (featureset,) = shop.featuresets
    changed = list(featureset.extractors)
    changed[position] = extractor
    return attrs.evolve(shop, featuresets=(attrs.evolve(featureset, extractors=tuple(changed)),))


@pytest.mark.parametrize(
    ("extractor", "said"),
    [
        (LookupExtractor(feature="total", dataset="Spend", column="total"), "set a default"),
        (
            LookupExtractor(
                feature="total", dataset="Spend", column="total", default="x", has_default=True
            ),
            "the default `'x'`",
        ),
        (LookupExtractor(feature="total", dataset="Spend", column="totl"), "`totl` is not in"),
        (LookupExtractor(feature="total", dataset="Gone", column="total"), "not in the commit"),
        (LookupExtractor(feature="total", dataset="Orders", column="amount"), "has no key"),
        (ExpressionExtractor(feature="total", expression=Ref("gone")), "refers to `gone`"),
        (ExpressionExtractor(feature="total", expression=Ref("user")), "not `float`"),
        (ExpressionExtractor(feature="total", expression=Ref("ratio")), "depend on each other"),
        (ExpressionExtractor(feature="mean", expression=Ref("ratio")), "two extractors"),
    ],
)
def test_an_extractor_that_cannot_be_is_refused(
    extractor: object, said: str, shop: Definitions
) -> None:
    errors = check(_with_extractor(shop, 0, extractor))

    assert any(said in f"{error.message} {error.hint}" for error in errors), errors


def test_a_lookup_needs_its_keys_as_features_and_an_index(
    shop: Definitions, edited: Edited
) -> None:
    (featureset,) = shop.featuresets
    without = attrs.evolve(featureset, features=featureset.features[1:])

    keyless = check(attrs.evolve(shop, featuresets=(without,)))
    unindexed = check(edited("Users", lambda one: attrs.evolve(one, index=None)))

    assert {error.code for error in keyless} == {"NX601"}
    assert _codes(unindexed) == ["NX809"]


def test_a_chain_of_a_thousand_datasets_is_checked() -> None:
    owned = Metadata(owner="a@b.co")
    schema = Schema((Field(name="ok", type=Bool()), *_amount_at()))
    first = Dataset(name="D0", version=1, schema=schema, metadata=owned)
    datasets = [first]
    for number in range(1, 1000):
        step = Filter(DatasetRef(f"D{number - 1}"), Ref("ok"))
        pipeline = Pipeline(name="p", inputs=(f"D{number - 1}",), terminal=step)
        datasets.append(attrs.evolve(first, name=f"D{number}", pipelines=(pipeline,)))

    errors = check(Definitions(datasets=tuple(datasets), featuresets=()))

    assert errors == ()


def _amount_at() -> tuple[Field, ...]:
    return (
        Field(name="amount", type=Float()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )


def test_text_that_looks_alike_but_differs_is_refused(edited: Edited) -> None:
    step = Filter(ORDERS, Call("eq", (Ref("user"), Literal("e\u0301", Str()))))

    errors = check(edited("Enriched", _ending_in(step)))

    assert "NX101" in _codes(errors)


def test_two_entities_of_one_name_are_refused(shop: Definitions) -> None:
    twice = attrs.evolve(
        shop, featuresets=(*shop.featuresets, _empty_featureset(shop.featuresets[0].name))
    )

    assert _codes(check(twice)) == ["NX802"]


def _empty_featureset(name: str) -> Featureset:
    owned = Metadata(owner="a@b.co")
    return Featureset(name=name, features=(), extractors=(), metadata=owned)


@pytest.mark.parametrize(
    ("window", "least"),
    [
        (Continuous("7d"), "7d"),
        (Tumbling("1d"), "2d"),
        (Tumbling("1d", lookback="12h"), "2d 12h"),
        (Hopping("2d", "6h"), "2d 6h"),
        (Hopping("forever", "6h", lookback="1h"), "7h"),
        (Continuous("forever"), "0.000001s"),
    ],
)
def test_a_history_is_at_least_as_long_as_the_windows(
    edited: Edited, window: Window, least: str
) -> None:
    terminal = Aggregate(
        ORDERS, by=("user",), specs=(Sum(into="total", window=window, of="amount"),)
    )

    def with_history(history_us: int) -> Definitions:
        def change(dataset: Dataset) -> Dataset:
            return attrs.evolve(_ending_in(terminal)(dataset), history_us=history_us)

        return edited("Spend", change)

    exact = parse_duration(least)

    assert "NX114" not in _codes(check(with_history(exact)))
    (error,) = [e for e in check(with_history(exact - 1)) if e.code == "NX114"]
    assert least in error.hint or exact == 1


def test_a_history_without_an_index_is_refused(edited: Edited) -> None:
    wrong = edited("Orders", lambda orders: attrs.evolve(orders, history_us=1))

    (error,) = check(wrong)

    assert error.code == "NX114"
    assert "no index" in error.message


@pytest.mark.parametrize(("steps", "expected"), [(200, []), (201, ["NX205"]), (5_000, ["NX205"])])
def test_a_pipeline_of_too_many_steps_is_refused(
    edited: Edited, shop: Definitions, steps: int, expected: list[str]
) -> None:
    """Analyses walk a pipeline by recursion, so its length has a bound."""
    (enriched,) = (one for one in shop.datasets if one.name == "Enriched")
    longer = enriched.pipelines[0].terminal
    own = 0 if isinstance(longer, DatasetRef) else len(all_steps(longer)) - 1
    for _ in range(steps - own):
        longer = Filter(longer, Literal(True, Bool()))

    assert _codes(check(edited("Enriched", _ending_in(longer)))) == expected
