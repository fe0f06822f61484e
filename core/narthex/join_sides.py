"""The stream side of a join: which of its columns a joined row can be found again by.

When the right side is corrected, the left rows of a key are read again from an index of the
stream's log. So each left column of a join must be a column of that log, at most renamed.
"""

from collections.abc import Iterator, Mapping

from narthex.entities import Dataset, Pipeline
from narthex.errors import DefinitionError, NotYetSupported
from narthex.operators import Assign, AssignCode, Join, Operator, Rename
from narthex.schemas import steps_of


def joins_of(operator: Operator) -> tuple[tuple[Join, tuple[str | None, ...]], ...]:
    """Give each join of a pipeline with its left columns as the stream's log names them.

    A column that was computed, or taken from another join's right side, is None.
    """
    _, steps = steps_of(operator)
    found: list[tuple[Join, tuple[str | None, ...]]] = []
    for position, step in enumerate(steps):
        if isinstance(step, Join):
            before = steps[:position]
            found.append((step, tuple(_logged(left, before) for left, _ in step.on)))
    return tuple(found)


def untraceable_joins(
    pipeline: Pipeline, datasets: Mapping[str, Dataset]
) -> Iterator[DefinitionError]:
    """Find joins on columns that the stream's log does not have."""
    ref, _ = steps_of(pipeline.terminal)
    stream = datasets[ref.dataset].schema
    for join, logged in joins_of(pipeline.terminal):
        for (left, _), column in zip(join.on, logged, strict=True):
            if column is None or column == stream.timestamp:
                yield NotYetSupported(
                    f"a join on `{left}`, which is not a value of `{ref.dataset}` itself, is not "
                    "carried out yet",
                    origin=join.origin,
                    hint=f"make `{left}` a value in a dataset of its own, and join that",
                )


def _logged(column: str, before: tuple[Operator, ...]) -> str | None:
    name = column
    for step in reversed(before):
        match step:
            case Rename():
                name = {new: old for old, new in step.names}.get(name, name)
            case Assign() if any(one.column == name for one in step.assignments):
                return None
            case AssignCode() if step.column.name == name:
                return None
            case Join() if name in step.fields:
                return None
            case _:
                pass
    return name
