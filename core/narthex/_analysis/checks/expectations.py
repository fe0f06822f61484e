"""The checks of expectations: their columns, their arguments, and the dataset or featureset."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from narthex._analysis.row_expectations import NotPerRowError, columns_of, prepare
from narthex._base.origin import Origin
from narthex._base.patterns import PatternError, check_pattern
from narthex._ir.entities import Action, Dataset, Expectation, Featureset
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.operators import Aggregate
from narthex._ir.types import DataType
from narthex.errors import DefinitionError, ExpectationInvalid

_IGNORED: Final = {
    "expect_column_pair_values_to_be_equal": "pair",
    "expect_column_pair_values_A_to_be_greater_than_B": "pair",
    "expect_column_pair_values_to_be_in_set": "pair",
    "expect_multicolumn_sum_to_equal": "many",
}
_WAYS_TO_IGNORE: Final = {
    "pair": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "many": ("all_values_are_missing", "any_value_is_missing", "never"),
}
_Arguments = Mapping[str, LiteralValue]


def expectation_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    """Return the errors of the expectations of a dataset."""
    if any(isinstance(pipeline.terminal, Aggregate) for pipeline in dataset.pipelines):
        yield from enforced_on_aggregates(dataset.name, dataset.expectations, dataset.origin)
    for expectation in dataset.expectations:
        yield from invalid_expectation(expectation, dataset.schema.columns, dataset.origin)


def feature_expectation_errors(featureset: Featureset) -> Iterator[DefinitionError]:
    """Return the errors of the expectations of a featureset."""
    yield from enforced_on_features(featureset.name, featureset.expectations, featureset.origin)
    for expectation in featureset.expectations:
        if expectation.action is Action.WARN:
            yield from invalid_expectation(
                expectation, featureset.columns, featureset.origin, member="feature"
            )


def enforced_on_features(
    featureset: str, expectations: Iterable[Expectation], origin: Origin
) -> Iterator[ExpectationInvalid]:
    """Return the errors of enforced expectations of a featureset."""
    for expectation in expectations:
        if expectation.action is not Action.WARN:
            yield ExpectationInvalid(
                f"`{expectation.kind}` cannot have `action={expectation.action.value!r}`: "
                f"`{featureset}` is a featureset, whose features are computed when they are read, "
                "so no row enters it",
                origin=origin,
                hint="leave `action` out, or enforce it on a dataset that the features read",
            )


def enforced_on_aggregates(
    dataset: str, expectations: Iterable[Expectation], origin: Origin
) -> Iterator[ExpectationInvalid]:
    """Return the errors of enforced expectations on a dataset that ends in an aggregate."""
    for expectation in expectations:
        if expectation.action is not Action.WARN:
            yield ExpectationInvalid(
                f"`{expectation.kind}` cannot have `action={expectation.action.value!r}`: "
                f"`{dataset}` ends in an aggregate, whose values change with each row of a group "
                "and as time passes, so no row enters it",
                origin=origin,
                hint="leave `action` out, or enforce it on the dataset that the pipeline reads",
            )


def invalid_expectation(
    expectation: Expectation,
    columns: Mapping[str, DataType],
    origin: Origin,
    *,
    member: str = "field",
) -> Iterator[DefinitionError]:
    """Return the errors of one expectation about rows with some columns.

    Args:
        expectation: The expectation.
        columns: The types of the columns by name.
        origin: The author's line.
        member: The word for a column in messages.
    """
    given = dict(expectation.arguments)
    unknown = [one for one in columns_of(expectation) if one not in columns]
    for column in unknown:
        yield ExpectationInvalid(
            f"`{expectation.kind}` is about `{column}`, which is not a {member}; there are "
            f"{listed(columns)}",
            origin=origin,
            hint=did_you_mean(column, columns),
        )
    wrong = [*_bounds(given), *_patterns(given), *_ways(expectation.kind, given)]
    for reason in wrong:
        yield ExpectationInvalid(f"`{expectation.kind}`: {reason}", origin=origin)
    if not unknown and not wrong:
        yield from _not_enforceable(expectation, columns, origin)


def _not_enforceable(
    expectation: Expectation, columns: Mapping[str, DataType], origin: Origin
) -> Iterator[DefinitionError]:
    """Return the error of an expectation that is to be enforced, but judges no single row."""
    if expectation.action is Action.WARN:
        return
    try:
        prepare(expectation, columns)
    except NotPerRowError as error:
        yield ExpectationInvalid(
            f"`{expectation.kind}` cannot have `action={expectation.action.value!r}`: {error}",
            origin=origin,
            hint="leave `action` out; audits and the checks of commits judge it",
        )


def _bounds(given: _Arguments) -> Iterator[str]:
    bounded = {"strict_min", "strict_max", "min_value", "max_value"} & given.keys()
    low, high = given.get("min_value"), given.get("max_value")
    if bounded and low is None and high is None:
        yield "it has neither `min_value` nor `max_value`"
    match low, high:
        case (int() | float(), int() | float()) if low > high:
            yield f"`min_value` {low} is above `max_value` {high}"
        case (str(), str()) if low > high:
            yield f"`min_value` {low} is above `max_value` {high}"
        case _:
            pass


def _patterns(given: _Arguments) -> Iterator[str]:
    many = given.get("regex_list")
    for pattern in (given.get("regex"), *(many if isinstance(many, tuple) else ())):
        if isinstance(pattern, str):
            try:
                check_pattern(pattern)
            except PatternError as error:
                yield f"the pattern `{pattern}` cannot be read: {error}"
    if given.get("match_on", "any") not in {"any", "all"}:
        yield f"`match_on` is `{given['match_on']!r}`; expected `any` or `all`"


def _ways(kind: str, given: _Arguments) -> Iterator[str]:
    known = _WAYS_TO_IGNORE.get(_IGNORED.get(kind, ""), ())
    way = given.get("ignore_row_if")
    if known and way is not None and way not in known:
        yield f"`ignore_row_if` is `{way!r}`; expected one of {listed(known)}"
    pairs = given.get("value_pairs_set")
    if isinstance(pairs, tuple) and any(not isinstance(p, tuple) or len(p) != 2 for p in pairs):  # noqa: PLR2004
        yield "`value_pairs_set` needs pairs"
