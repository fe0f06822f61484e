"""A project: definitions, facts in an order of arrival, and the instants of lookups."""

from collections.abc import Iterator, Sequence

import attrs

from narthex._analysis.schemas import all_steps
from narthex._ir import (
    Aggregate,
    Continuous,
    Dataset,
    Definitions,
    Hopping,
    Session,
    Tumbling,
    Window,
)
from narthex_reference.conformance.arrivals import Arrival, Sent, cut


@attrs.frozen(kw_only=True)
class Project:
    """A generated project.

    Attributes:
        definitions: Correct definitions.
        sent: All facts, in the order of their positions.
        arrival: The same facts as they arrive: shuffled, repeated, cut into batches.
        instants: The instants of lookups, besides those that the facts suggest.
    """

    definitions: Definitions
    sent: tuple[Sent, ...]
    arrival: Arrival
    instants: tuple[int, ...] = ()

    @property
    def in_order(self) -> Arrival:
        """Return the facts as they were sent, dataset by dataset."""
        return cut(sorted(self.sent, key=lambda one: one[0]), [len(self.sent)])

    def with_facts(self, places: Sequence[int]) -> "Project":
        """Return the project with the facts at places of `sent` alone; they arrive as before."""
        sent = tuple(self.sent[at] for at in places)
        kept = {(name, fact.row_id, fact.version) for name, fact in sent}
        arrival = tuple(
            (name, facts)
            for name, batch in self.arrival
            if (facts := tuple(f for f in batch if (name, f.row_id, f.version) in kept))
        )
        return attrs.evolve(self, sent=sent, arrival=arrival)

    @property
    def keyed(self) -> tuple[Dataset, ...]:
        """Return the datasets that can be looked up."""
        return tuple(dataset for dataset in self.definitions.datasets if dataset.schema.keys)


_LONG_US = 4_000 * 86_400_000_000


def instants_of(project: Project) -> tuple[int, ...]:
    """Return the instants at which an answer may change, and those just before.

    They are the event times of facts, moved by the lengths of the windows of the pipelines and by
    the histories of the datasets; with a history, the last is long after all rows.
    """
    histories = {one.history_us for one in project.definitions.datasets if one.history_us}
    moves = {0, *(history + 1 for history in histories)}
    for window in _windows(project.definitions):
        moves |= set(_lengths(window))
    times = {fact.event_time for _, fact in project.sent}
    changes = {time + move for time in times for move in moves}
    ends = {_aligned(change, stride) for change in changes for stride in _strides(project)}
    found = changes | ends
    if histories and times:
        found.add(max(times) + _LONG_US)
    return tuple(sorted({*project.instants, *found, *(one - 1 for one in found)}))


def _windows(definitions: Definitions) -> Iterator[Window]:
    for dataset in definitions.datasets:
        for pipeline in dataset.pipelines:
            for step in all_steps(pipeline.terminal):
                if isinstance(step, Aggregate):
                    yield from ([step.window] if step.window is not None else [])
                    yield from (spec.window for spec in step.specs)


def _lengths(window: Window) -> Iterator[int]:
    match window:
        case Continuous(duration=duration):
            yield from ([] if duration is None else [duration, duration + 1])
        case Tumbling() | Hopping():
            yield window.lookback
        case Session(gap=gap):
            yield from (gap, gap + 1)


def _strides(project: Project) -> set[int]:
    found: set[int] = set()
    for window in _windows(project.definitions):
        if isinstance(window, Tumbling | Hopping):
            found.add(window.stride if isinstance(window, Hopping) else window.duration)
    return found


def _aligned(instant: int, stride: int) -> int:
    return -(-instant // stride) * stride
