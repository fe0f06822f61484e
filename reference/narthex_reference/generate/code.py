"""Functions of authors: source text as it travels, of the columns of a step.

They read one column. On the way they may overwrite or drop others, change dtypes, and return rows
in another order or with labels of their own. Some fail on some rows: they raise, or return a value
that its type refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
from hypothesis import strategies as st

from narthex._ir import Bool, DataType, Datetime, Float, Int, Optional, Str, UserCode, inner

Draw: TypeAlias = st.DrawFn

_SHAPES: Final = (
    "{}",
    "{}.rename('other')",
    "{}.iloc[::-1]",
    "{}.sample(frac=1.0, random_state=1)",
    "{}.reset_index(drop=True)",
    "{}.set_axis(range(7, 7 + len(df)))",
)
"""Final changes of a result that do not change its values by row."""


_SELDOM: Final = 2
"""How many functions cannot fail for each one that can."""


@attrs.frozen(kw_only=True)
class ComputedColumn:
    """An expression of pandas over a frame `df`, whose value depends on one row.

    Attributes:
        reads: The column that it reads.
    """

    reads: str
    text: str
    type: DataType


def user_code(source: str) -> UserCode:
    """Wrap source text that defines `step` as code."""
    return UserCode(entry="step", source=source, python="3.11")


def computed_columns(columns: Mapping[str, DataType]) -> tuple[ComputedColumn, ...]:
    """Return what functions can compute of the columns; null where the column is."""
    return tuple(
        ComputedColumn(reads=name, text=text, type=Optional(made) if _is_null(of) else made)
        for name, of in columns.items()
        for text, made in _computed(f"df[{name!r}]", inner(of))
    ) + tuple(
        # The type refuses a null.
        ComputedColumn(reads=name, text=f"df[{name!r}]", type=inner(of))
        for name, of in columns.items()
        if _is_null(of)
    )


def _is_null(of: DataType) -> bool:
    return isinstance(of, Optional)


def _computed(column: str, of: DataType) -> Iterator[tuple[str, DataType]]:
    match of:
        case Int():
            yield f"{column} + 10", Int()
            yield f"-{column}.astype(object)", Int()
            yield f"{column}.astype('Float64') / 4", Float()
            yield f"{column}.astype('string') + '!'", Str()
            yield f"{column}.where({column} != 1)", Int()
        case Float():
            yield f"{column} * 2.0", Float()
            yield f"{column} > 0.5", Bool()
        case Str():
            yield f"{column} + 'x'", Str()
            yield f"{column}.str.len()", Int()
        case Bool():
            yield f"~{column}", Bool()
            yield f"{column}.astype('Int64') + 1", Int()
        case Datetime():
            yield f"{column}.dt.floor('10s')", Datetime()
        case _:
            pass


def failures(columns: Mapping[str, DataType]) -> tuple[str, ...]:
    """Return statements that raise if one of the rows has some value in a column."""
    found: list[str] = []
    for name, of in columns.items():
        column = f"df[{name!r}]"
        if _is_null(of):
            found.append(f"assert not {column}.isna().any(), 'a null'")
        match inner(of):
            case Int():
                found.append(f"{column}.dropna().map(lambda one: 1 // one)")
            case Float():
                found.append(f"{column}.dropna().map(lambda one: {{0.0: []}}.get(one, [1])[0])")
            case Str():
                found.append(f"{column}.dropna().map(lambda one: one[0])")
            case Bool():
                found.append(f"assert not {column}.fillna(False).any(), 'true'")
            case _:
                pass
    return tuple(found)


def predicates(columns: Mapping[str, DataType]) -> tuple[str, ...]:
    """Return boolean expressions of each row; null for a null in the column."""
    found: list[str] = []
    for name, of in columns.items():
        column = f"df[{name!r}]"
        if _is_null(of):
            found.append(f"{column}.notna()")
        match inner(of):
            case Int():
                found.append(f"{column} > 0")
            case Float():
                found.append(f"({column} < 1.0).astype(object)")
            case Str():
                found.append(f"{column} == 'a'")
            case Bool():
                found.append(column)
            case _:
                pass
    return tuple(found)


def series_of(
    draw: Draw,
    text: str,
    *,
    reads: str,
    others: Sequence[str],
    fails: Sequence[str] = (),
) -> UserCode:
    """Return a function of a frame that returns a column.

    Args:
        draw: Draws what else it does.
        text: The expression of the column.
        reads: The column that the expression reads.
        others: All columns of the frame.
        fails: Statements, of which it may have one.
    """
    lines = _disturbed(draw, [name for name in others if name != reads])
    return _function([*_failing(draw, fails), *lines, f"made = {text}"], "made", draw)


def frame_of(
    draw: Draw,
    column: ComputedColumn,
    *,
    into: str,
    kept: Sequence[str],
    columns: Mapping[str, DataType],
) -> UserCode:
    """Return a function of a frame that keeps some columns and computes one; it may fail on rows.

    Args:
        draw: Draws what else it does.
        column: The computed column.
        into: The name of the computed column; it may overwrite the column that is read.
        kept: The other columns of the result.
        columns: All columns of the frame.
    """
    names = [*kept, into]
    spare = [name for name in columns if name not in {column.reads, *kept}]
    before = [*_failing(draw, failures(columns)), *_disturbed(draw, spare)]
    lines = [*before, f"df[{into!r}] = {column.text}"]
    return _function(lines, f"df[{draw(st.permutations(names))!r}]", draw, named=False)


def _failing(draw: Draw, fails: Sequence[str]) -> list[str]:
    """Return at most one of the statements; none of them more often."""
    if not fails or draw(st.integers(0, _SELDOM)) < _SELDOM:
        return []
    return [draw(st.sampled_from(fails))]


def _disturbed(draw: Draw, spare: Sequence[str]) -> list[str]:
    """Return lines that change the frame, but not the columns that count."""
    if not spare or not draw(st.booleans()):
        return []
    name = draw(st.sampled_from(spare))
    return [
        draw(
            st.sampled_from(
                [f"df[{name!r}] = 0", f"df = df.drop(columns=[{name!r}])", f"del df[{name!r}]"]
            )
        )
    ]


def _function(lines: Sequence[str], result: str, draw: Draw, *, named: bool = True) -> UserCode:
    shapes = _SHAPES if named else [shape for shape in _SHAPES if "rename" not in shape]
    body = [*lines, f"return {draw(st.sampled_from(shapes)).format(result)}"]
    return user_code("def step(df):\n" + "".join(f"    {line}\n" for line in body))
