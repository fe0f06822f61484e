"""The stream side of a join: the columns by which a joined row can be found again.

When the right side is corrected, the left rows of a key are read again from an index of the
stream's log. So each left column of a join must be a column of that log, at most renamed.
"""

from narthex._analysis.schemas.pipelines import steps_of
from narthex._ir.operators import Assign, AssignCode, Join, Operator, Rename


def joins_of(operator: Operator) -> tuple[tuple[Join, tuple[str | None, ...]], ...]:
    """Return each join of a pipeline with its left columns as the stream's log names them.

    A column that is computed, or comes from another join's right side, is None.
    """
    _, steps = steps_of(operator)
    found: list[tuple[Join, tuple[str | None, ...]]] = []
    for position, step in enumerate(steps):
        if isinstance(step, Join):
            before = steps[:position]
            found.append((step, tuple(_logged(left, before) for left, _ in step.on)))
    return tuple(found)


def _logged(column: str, before: tuple[Operator, ...]) -> str | None:
    name = column
    for step in reversed(before):
        match step:
            case Rename():
                name = {new: old for old, new in step.names}.get(name, name)
            case Assign() if any(assignment.column == name for assignment in step.assignments):
                return None
            case AssignCode() if step.column.name == name:
                return None
            case Join() if name in step.fields:
                return None
            case _:
                pass
    return name
