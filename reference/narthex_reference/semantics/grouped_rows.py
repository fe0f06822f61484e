"""The rows of a group with the validity interval in which an aggregate counts each."""

from collections.abc import Iterable, Sequence

import attrs

from narthex._ir import Aggregate, AggregateSpec, Cell, DataType, Misfit, type_aggregate
from narthex_reference.semantics.content import Content, ContentRow, histories
from narthex_reference.semantics.folds import PlacedCell, fold


@attrs.frozen
class Contribution:
    """One row of a group.

    Attributes:
        row: The row.
        instant: Its place on the time axis: its event time, or the column `along`.
        since: The instant from which it is valid.
        until: The instant at which its key gets another row or none; None if it never ends.
    """

    row: ContentRow
    instant: int
    since: int
    until: int | None

    def is_there(self, at: int) -> bool:
        """Whether it is among the rows as of an instant."""
        return self.since <= at and (self.until is None or at < self.until)

    @property
    def order(self) -> tuple[int, bytes]:
        """The sort key among the rows of its group."""
        return self.instant, self.row.row_id


def contributions(step: Aggregate, given: Content) -> list[Contribution]:
    """Return all rows that ever counted, by their place on the time axis.

    A keyless row is valid from its instant on, or from that of `along`, without an end. A keyed
    row is valid from its event time until its key changes; `along` only determines the windows
    that it belongs to.
    """
    found: list[Contribution] = []
    if not given.schema.keys:
        for row in given.rows:
            instant = _instant(step, row)
            found.append(Contribution(row, instant, since=instant, until=None))
    else:
        for history in histories(given).values():
            for row, following in zip(history, [*history[1:], None], strict=True):
                if row.alive:
                    until = None if following is None else following.event_time
                    found.append(Contribution(row, _instant(step, row), row.event_time, until))
    return sorted(found, key=lambda one: one.order)


def _instant(step: Aggregate, row: ContentRow) -> int:
    instant = row.event_time if step.along is None else row.cells[step.along]
    if not isinstance(instant, int):
        raise TypeError(f"`{step.along}` is {instant!r}, which is not an instant")
    return instant


@attrs.frozen
class TypedSpec:
    """An aggregate with the type of its input column."""

    spec: AggregateSpec
    of: DataType | None

    def value(self, counted: Iterable[Contribution], asked_at: int) -> Cell:
        """Compute the value over the rows that it counts, oldest first."""
        return fold(self.spec, self.of, [_value(self.spec, one) for one in counted], asked_at)


def _value(spec: AggregateSpec, one: Contribution) -> PlacedCell:
    return one.instant, one.row.row_id, None if spec.of is None else one.row.cells[spec.of]


def typed_specs(step: Aggregate, given: Content) -> Sequence[TypedSpec]:
    """Return the aggregates with their types.

    Raises:
        TypeError: A column does not fit, which a commit would have refused.
    """
    columns = given.schema.columns
    found: list[TypedSpec] = []
    for spec in step.specs:
        of = None if spec.of is None else columns[spec.of]
        typed = type_aggregate(spec, of)
        if isinstance(typed, Misfit):
            raise TypeError(typed.message)
        found.append(TypedSpec(spec, of))
    return found
