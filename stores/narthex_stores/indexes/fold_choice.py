"""The aggregates that an index folds at read time, by its spec."""

from narthex._aggregates import Folding, IntervalFolding, folding
from narthex._ir import VALIDITY_COLUMNS, IndexSpec, LogShape


def folding_of(spec: IndexSpec) -> Folding | IntervalFolding | None:
    """Return the aggregates of an index of contributions; None for other shapes.

    Contributions with validity intervals have no tiles: their rows are folded.
    """
    if spec.log.shape is not LogShape.CONTRIBUTIONS or spec.by:
        return None
    names = tuple(column.name for column in spec.log.values)
    ready = folding(spec.aggregates, names)
    if not spec.log.lives:
        return ready
    since, until = (names.index(column.name) for column in VALIDITY_COLUMNS)
    return IntervalFolding(folding=ready, since=since, until=until, along=spec.log.along)
