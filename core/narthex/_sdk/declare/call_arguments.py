"""Read the forms of operator calls into plain columns."""

from collections.abc import Sequence
from typing import TypeAlias

from narthex._authoring.durations import read_duration
from narthex._base.origin import Origin
from narthex._base.times import DurationError
from narthex.errors import DefinitionError, DurationInvalid, JoinInvalid, OperatorInvalid

ColumnsArgument: TypeAlias = str | Sequence[str] | None


def read_columns(
    positional: tuple[object, ...], columns: object, *, operator: str, origin: Origin
) -> tuple[str, ...]:
    """Read `op("a", "b")`, `op(["a", "b"])` or `op(columns=["a", "b"])`.

    Raises:
        OperatorInvalid: Both forms at once, or a value that is not a column name.
    """
    if positional and columns is not None:
        raise OperatorInvalid(
            f"`{operator}` has columns both by position and as `columns`",
            origin=origin,
            hint="use one of the two forms",
        )
    named: object = columns if columns is not None else positional
    if isinstance(named, tuple) and len(named) == 1 and isinstance(named[0], list | tuple):
        named = named[0]
    if isinstance(named, str):
        named = [named]
    names = tuple(named) if isinstance(named, list | tuple) else (named,)
    return tuple(_column_name(name, operator=operator, origin=origin) for name in names)


def _column_name(name: object, *, operator: str, origin: Origin) -> str:
    if not isinstance(name, str):
        raise OperatorInvalid(
            f"`{operator}` got `{name!r}`; expected the name of a column", origin=origin
        )
    return name


def read_names(names: object, *, origin: Origin) -> tuple[tuple[str, str], ...]:
    """Read the argument of `rename`: a dict from old to new names.

    Raises:
        OperatorInvalid: It is not such a dict.
    """
    if not isinstance(names, dict) or not all(
        isinstance(old, str) and isinstance(new, str) for old, new in names.items()
    ):
        raise OperatorInvalid('`rename` needs a dict such as `{"old": "new"}`', origin=origin)
    return tuple(names.items())


def read_join_on(
    on: ColumnsArgument,
    left_on: ColumnsArgument,
    right_on: ColumnsArgument,
    *,
    right_keys: tuple[str, ...],
    origin: Origin,
) -> tuple[tuple[str, str], ...]:
    """Pair the left columns of a join with the right dataset's keys.

    Raises:
        JoinInvalid: Both forms at once, neither, or lists of different lengths.
    """
    lists = [_names(columns, origin=origin) for columns in (on, left_on, right_on)]
    if lists[0] and not lists[1] and not lists[2]:
        left = right = lists[0]
    elif lists[1] and lists[2] and not lists[0]:
        left, right = lists[1], lists[2]
    else:
        keys = ", ".join(f"`{key}`" for key in right_keys)
        raise JoinInvalid(
            f"a join needs either `on`, or `left_on` and `right_on`; the right keys are {keys}",
            origin=origin,
        )
    if len(left) != len(right):
        raise JoinInvalid(
            f"`left_on` has {len(left)} columns and `right_on` has {len(right)}", origin=origin
        )
    return tuple(zip(left, right, strict=True))


def _names(columns: ColumnsArgument, *, origin: Origin) -> tuple[str, ...]:
    if columns is None:
        return ()
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    return tuple(_column_name(name, operator="join", origin=origin) for name in names)


def read_within(within: object, *, origin: Origin) -> tuple[int | None, int]:
    """Read the bounds of a join: microseconds before and after the left instant.

    Raises:
        JoinInvalid: It is not a pair of durations, or its upper bound is `forever`.
        DurationInvalid: A duration cannot be read.
    """
    match within:
        case (str(low), "forever"):
            raise JoinInvalid(
                f"the upper bound of `within=({low!r}, 'forever')` has no end",
                origin=origin,
                hint="give a duration: right rows from the future must have a limit",
            )
        case ("forever", str(high)):
            return None, read_duration(high, origin=origin)
        case (str(low), str(high)):
            return read_duration(low, origin=origin), read_duration(high, origin=origin)
        case _:
            raise JoinInvalid(
                f"`within` got `{within!r}`; expected a pair of durations",
                origin=origin,
                hint='write it as `within=("1d", "0s")`',
            )


def as_definition_error(error: Exception, *, what: str, origin: Origin) -> DefinitionError:
    """Convert an exception from an author's code to a definition error."""
    match error:
        case DefinitionError():
            return error.located(origin)
        case DurationError():
            return DurationInvalid(str(error), origin=origin)
        case _:
            return OperatorInvalid(f"{what}: {type(error).__name__}: {error}", origin=origin)
