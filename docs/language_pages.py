# ruff: noqa: E501, INP001 (tables have long lines)
"""The pages of the reference that are about ideas: operators, aggregates, windows and types."""

from collections.abc import Iterator
from typing import Final

import attrs

from docs.public_api import Entry, entries, entry_of
from docs.render_expressions import shown
from narthex import datasets
from narthex._aggregates import algebra
from narthex._ir import types
from narthex._ir.aggregate_specs import AggregateSpec, TypedAggregate
from narthex._ir.aggregate_types import Misfit, type_aggregate
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType
from narthex._ir.windows import Continuous
from narthex._sdk.datasets.steps import Groups, Rows


@attrs.frozen(kw_only=True)
class Page:
    """A page: what people wrote of an idea, and the names that belong to it."""

    name: str
    about: str
    introduction: str
    entries: tuple[Entry, ...]


TRIED: Final[tuple[DataType, ...]] = (
    *(types.Int(), types.Float(), types.Decimal(2), types.Bool(), types.Str(), types.Bytes()),
    *(types.Date(), types.Datetime(), types.List(types.Int()), types.Map(types.Int())),
    types.Embedding(2),
)
WITH_A_DEFAULT: Final = {"Average", "Max", "Min", "Quantile", "Stddev"}
WINDOW: Final = Continuous("1h")
OPERATORS: Final = """# Operators

A pipeline's function is called once, when its class is made, with the rows of its inputs. Each
method below adds a step and gives the rows after it; nothing is computed then. Steps run on each
row as it comes, again when it is corrected, and give the same result in any order of arrival.

What a step does with nulls:

| step | null |
|---|---|
| `filter` with an expression | one that may be null is refused; `.fillnull(False)` says what null means |
| `assign` with an expression | as the [expression](expressions.md) says; a null in a column that is not `Optional` is a mistake of the row |
| `dropnull` | leaves out the row, and the columns are no longer `Optional` |
| `join` | keys are never null; without a match, the right columns of a left join are null |
| `groupby` | columns that may be null cannot be grouped by |
| `explode` | an empty list gives one row with null |
| `aggregate` | see [aggregates](aggregates.md) |

Mistakes of a step ([errors](../errors.md)) are told when the class is made, all together, each with
its line.
"""
AGGREGATES: Final = """# Aggregates

`groupby(…).aggregate(name=Count(…), …)` computes them for each group over the rows of a
[window](windows.md). All but `Count` name the column that they read, `of`; `window` can be left
out where `groupby` has one; `into_field` names the result where it is not given by keyword.

{table}

- **No rows** is the value of a group that was seen, when its window has emptied, or when all of its
  rows were keyed ones that have been deleted.
- **Never seen** is what a lookup gives for a key without any row: the value of the aggregate where
  the table has one, else null, or the `default` of the feature.
- Nulls are skipped. `Count`, `FirstK`, `LastK` and `Distinct` take them as values, unless
  `dropnull` is set; it is for `Optional` columns.
- Rows are ordered by event time; equal instants by where the rows came from.
- Sums of ints and decimals are exact. Floats are summed with compensation, to a relative 1e-9 of
  the exact sum.
"""
WINDOWS: Final = """# Windows

A window says which rows count for a question as of an instant *q*. A duration is text: numbers with
`y` (365 days), `w`, `d`, `h`, `m` or `s`, such as `"1d"` or `"1h 30m"`.

| window | a row at *e* counts when |
|---|---|
| `Continuous(d)` | *q* - *d* ≤ *e* ≤ *q*, both ends included |
| `Continuous("forever")` | *e* ≤ *q* |
| `Tumbling(d)`, `Hopping(d, s)` | *e* is in [start, end) of the newest window that has closed: end ≤ *q* - lookback |
| `Hopping("forever", s)` | *e* is before the newest end of a stride that is ≤ *q* - lookback |
| `Session(gap)` | rows of a key belong together while the next is at most `gap` after the last, itself included |

- Hopping and tumbling windows start at multiples of the stride, counted from the epoch, in UTC.
- Windows are exact to the microsecond at both ends, online and offline, whatever their length.
- The windows of one `aggregate` are all continuous or all discrete (hopping or tumbling).
- A window is read by *q* alone: no other row need arrive for it to close.
- A session's `begin` is its first row's instant, its `end` a microsecond after the last's. It is
  used in `groupby(…, window=Session(…))`.
- With `groupby(…, window=…)` each span is a row of its own, and the key column `window` says which.
- A dataset that ends in an aggregate over continuous windows can be looked up, and feeds no other
  pipeline.
"""
TYPES: Final = """# Types

| annotation | values | notes |
|---|---|---|
| `int` | 64 bits, signed | |
| `float` | IEEE-754 doubles | no key; a float column takes ints |
| `bool` | `True`, `False` | no number |
| `str` | Unicode text | |
| `bytes` | bytes | |
| `datetime` | instants in microseconds, UTC | finer ones are truncated, naive ones are UTC; on the wire RFC 3339 |
| `date` | days | |
| `Decimal[n]` | 28 digits, `n` of them after the point | `n` from 1 to 28; from `narthex.dtypes`, not `decimal` |
| `List[T]`, `list[T]` | lists | |
| `Dict[str, T]`, `dict[str, T]` | dicts whose keys are text | |
| `Optional[T]`, `T \\| None` | `T`, or null | no key; without it a null is a mistake of the row |
| `Embedding[n]` | lists of `n` floats | no key |
| `Window` | the span of a discrete window: `begin` included, `end` not | |
| a `@struct` class | its members | |
| `between(T, min, max)` | numbers within bounds | `T` is `int` or `float` |
| `oneof(T, [a, b])` | one of these | `T` is `int` or `str` |
| `regex(pattern)` | text that the pattern matches as a whole | |

A key is any type but `Optional`, `float` and `Embedding`. A row with a value of another type is
refused by `log`, and quarantined where it comes by other ways.
"""


def _specs(column: str) -> tuple[AggregateSpec, ...]:
    """Return one of each aggregate, as authors get it who say no more than they must."""
    calls = (
        datasets.Count(),
        datasets.Count(of=column, unique=True),
        datasets.Sum(of=column),
        datasets.Average(of=column),
        datasets.Stddev(of=column),
        datasets.Min(of=column),
        datasets.Max(of=column),
        datasets.Quantile(of=column, p=0.5),
        datasets.ExpDecaySum(of=column, half_life="1d"),
        datasets.FirstK(of=column, limit=3, dedup=False, dropnull=False),
        datasets.LastK(of=column, limit=3, dedup=False),
        datasets.Distinct(of=column, unordered=True),
    )
    return tuple(call.build(column, WINDOW) for call in calls)


def _table() -> Iterator[str]:
    yield "| aggregate | of | gives | no rows | never seen |"
    yield "|---|---|---|---|---|"
    for spec in _specs("x"):
        found = [
            (of, typed) for of in TRIED if not isinstance(typed := type_aggregate(spec, of), Misfit)
        ]
        one = found[0][1]
        how = algebra(one)
        empty = shown(how.finish(how.identity(), 0), one.output)
        unseen = empty if type(spec).__name__ in WITH_A_DEFAULT else "null"
        names = [type_name(of) for of, _ in found]
        taken = "any type" if len(names) == len(TRIED) else f"`{'`, `'.join(names)}`"
        yield f"| {_named(spec)} | {taken} | `{_given(found)}` | {empty} | {unseen} |"


def _given(found: list[tuple[DataType, TypedAggregate]]) -> str:
    """Return the result's type; `T` in it is the column's."""
    results = {type_name(typed.output) for _, typed in found}
    by_column = {type_name(typed.output).replace(type_name(of), "T") for of, typed in found}
    (name,) = results if len(results) == 1 else by_column
    return name


def _named(spec: AggregateSpec) -> str:
    unique = getattr(spec, "unique", False)
    return f"`{type(spec).__name__}`" + (" with `unique`" if unique else "")


def _chosen(module: str, *, lower: bool) -> tuple[Entry, ...]:
    return tuple(one for one in entries(module) if one.name[:1].islower() is lower)


def _aggregate_entries() -> tuple[Entry, ...]:
    rows = {"Dataset", "Field", "Groups", "Rows"}
    return tuple(one for one in _chosen("narthex.datasets", lower=False) if one.name not in rows)


_WINDOWS: Final = {"Continuous", "Hopping", "Session", "Tumbling"}
LANGUAGE: Final = (
    Page(
        name="operators",
        about="The steps of pipelines.",
        introduction=OPERATORS,
        entries=(entry_of("Rows", Rows), entry_of("Groups", Groups)),
    ),
    Page(
        name="aggregates",
        about="What `aggregate` computes, of which columns, and what no rows give.",
        introduction=AGGREGATES.format(table="\n".join(_table())),
        entries=_aggregate_entries(),
    ),
    Page(
        name="windows",
        about="Which rows an aggregate sees.",
        introduction=WINDOWS,
        entries=tuple(one for one in entries("narthex.dtypes") if one.name in _WINDOWS),
    ),
    Page(
        name="types",
        about="What fields and features can be.",
        introduction=TYPES,
        entries=tuple(one for one in entries("narthex.dtypes") if one.name not in _WINDOWS),
    ),
)
