# ruff: noqa: E501, INP001 (tables have long lines)
"""The pages of the reference about the language: operators, aggregates, windows and types."""

from collections.abc import Iterator
from functools import cache
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
    """A page of the reference: a written introduction, and the public names of its topic.

    Attributes:
        module: The module whose examples it shows.
    """

    name: str
    module: str
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

A pipeline's function is called once, when its class is created, with the rows of its inputs. Each
method below adds a step and returns the rows after it; the call computes nothing. Steps run on each
row when it arrives and again when it is corrected. The result does not depend on the order of
arrival.

How steps treat nulls:

| step | null |
|---|---|
| `filter` with an expression | an expression that may be null is refused; `.fillnull(False)` defines the result for null |
| `assign` with an expression | see the [expression](expressions.md); a null in a column that is not `Optional` makes the row invalid |
| `dropnull` | drops the row; the columns are then no longer `Optional` |
| `join` | keys are never null; without a match, the right columns of a left join are null |
| `groupby` | rows cannot be grouped by columns that may be null |
| `explode` | an empty list results in one row with null |
| `aggregate` | see [aggregates](aggregates.md) |

When the class is created, all mistakes of its steps ([errors](../errors.md)) are reported together,
each with its line.
"""
AGGREGATES: Final = """# Aggregates

`groupby(…).aggregate(name=Count(…), …)` computes aggregates for each group over the rows of a
[window](windows.md). `of` names the column that an aggregate reads; only `Count` needs none. Omit
`window` if `groupby` has one. `into_field` names the result if no keyword does.

{table}

- **No rows** is the value of a known group whose window is empty, or whose rows were keyed and have
  all been deleted.
- **Never seen** is the result of a lookup for a key without any row: the value of the aggregate if
  the table has one, else null, or the `default` of the feature.
- Nulls are skipped. `Count`, `FirstK`, `LastK` and `Distinct` count them as values, unless
  `dropnull` is set; it is for `Optional` columns.
- Rows are ordered by event time, and rows of one instant by their position in the source.
- Sums of ints and decimals are exact. A sum beyond 64 bits, or 28 digits, is shown as the nearest
  value of the type, because a `Sum` is never null; it is exact again when its rows leave the window.
- Sums of floats are compensated: their relative error is at
  most 1e-9.
"""
WINDOWS: Final = """# Windows

A window determines which rows count for a query as of an instant *q*. A duration is text: numbers
with `y` (365 days), `w`, `d`, `h`, `m` or `s`, such as `"1d"` or `"1h 30m"`.

| window | a row at *e* counts if |
|---|---|
| `Continuous(d)` | *q* - *d* ≤ *e* ≤ *q*, both ends included |
| `Continuous("forever")` | *e* ≤ *q* |
| `Tumbling(d)`, `Hopping(d, s)` | *e* is in [start, end) of the newest window that has closed: end ≤ *q* - lookback |
| `Hopping("forever", s)` | *e* is before the newest end of a stride that is ≤ *q* - lookback |
| `Session(gap)` | rows of a key belong to one session while each is at most `gap` (inclusive) after the previous one |

- Hopping and tumbling windows start at multiples of the stride, counted from the epoch, in UTC.
- Windows are exact to the microsecond at both ends, online and offline, whatever their length.
- The windows of one `aggregate` are all continuous or all discrete (hopping or tumbling).
- Only *q* determines a window's rows: a window closes even if no further row arrives.
- A session's `begin` is its first row's instant, its `end` a microsecond after the last row's. Use
  it in `groupby(…, window=Session(…))`.
- With `groupby(…, window=…)` each span is a separate row, identified by the key column `window`.
- A dataset that ends in an aggregate over continuous windows supports lookups, but cannot feed
  another pipeline.
"""
TYPES: Final = """# Types

| annotation | values | notes |
|---|---|---|
| `int` | 64 bits, signed | |
| `float` | IEEE-754 doubles | cannot be a key; a float column accepts ints |
| `bool` | `True`, `False` | not a number |
| `str` | Unicode text | |
| `bytes` | bytes | |
| `datetime` | instants in microseconds, UTC | smaller units are truncated, naive values are UTC; RFC 3339 on the wire |
| `date` | days | |
| `Decimal[n]` | 28 digits, `n` of them after the point | `n` from 1 to 28; from `narthex.dtypes`, not `decimal` |
| `List[T]`, `list[T]` | lists | |
| `Dict[str, T]`, `dict[str, T]` | dicts whose keys are text | |
| `Optional[T]`, `T \\| None` | `T`, or null | cannot be a key; without it a null makes the row invalid |
| `Embedding[n]` | lists of `n` floats | cannot be a key |
| `Window` | the span of a discrete window: `begin` included, `end` not | |
| a `@struct` class | its members | |
| `between(T, min, max)` | numbers within bounds | `T` is `int` or `float` |
| `oneof(T, [a, b])` | one of the listed values | `T` is `int` or `str` |
| `regex(pattern)` | text that the whole pattern matches | |

Keys can have any type except `Optional`, `float` and `Embedding`. `log` refuses a row with a value
of another type; other sources quarantine it.
"""


def _specs(column: str) -> tuple[AggregateSpec, ...]:
    """Return one of each aggregate, with required parameters only."""
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
    yield "| aggregate | of | result | no rows | never seen |"
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
    """Return the result's type; `T` is the column's type."""
    results = {type_name(typed.output) for _, typed in found}
    by_column = {type_name(typed.output).replace(type_name(of), "T") for of, typed in found}
    (name,) = results if len(results) == 1 else by_column
    return name


def _named(spec: AggregateSpec) -> str:
    unique = getattr(spec, "unique", False)
    return f"`{type(spec).__name__}`" + (" with `unique`" if unique else "")


def _chosen(module: str, *, lower: bool) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries(module) if entry.name[:1].islower() is lower)


def _aggregate_entries() -> tuple[Entry, ...]:
    rows = {"Dataset", "Field", "Groups", "Rows"}
    return tuple(one for one in _chosen("narthex.datasets", lower=False) if one.name not in rows)


_WINDOWS: Final = {"Continuous", "Hopping", "Session", "Tumbling"}


@cache
def language() -> tuple[Page, ...]:
    """Return the pages about the language."""
    return (
        Page(
            name="operators",
            module="narthex.datasets",
            about="The steps of pipelines.",
            introduction=OPERATORS,
            entries=(entry_of("Rows", Rows), entry_of("Groups", Groups)),
        ),
        Page(
            name="aggregates",
            module="narthex.datasets",
            about="The aggregates, their column types, and their values without rows.",
            introduction=AGGREGATES.format(table="\n".join(_table())),
            entries=_aggregate_entries(),
        ),
        Page(
            name="windows",
            module="narthex.dtypes",
            about="The rows that an aggregate reads.",
            introduction=WINDOWS,
            entries=tuple(entry for entry in entries("narthex.dtypes") if entry.name in _WINDOWS),
        ),
        Page(
            name="types",
            module="narthex.dtypes",
            about="The types of fields and features.",
            introduction=TYPES,
            entries=tuple(
                entry for entry in entries("narthex.dtypes") if entry.name not in _WINDOWS
            ),
        ),
    )
