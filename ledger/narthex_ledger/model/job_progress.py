"""The state of a job with several shards, from what supervisors report of each shard."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from narthex._base import Json
from narthex_ledger.model.states import Phase
from narthex_ledger.model.views import ShardView

_WORST_FIRST: Final = (
    Phase.FAILED,
    Phase.PENDING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.PAUSED,
    Phase.STOPPED,
    Phase.CAUGHT_UP,
)
_GREATEST: Final = frozenset({"newest_event_time"})
"""Numbers of which the greatest counts; all but these and the least are added."""
_LEAST: Final = frozenset({"succeeded_at"})
"""Numbers of which the least counts: a job is as far as the last of its shards."""
_GREATEST_EACH: Final = frozenset({"event_times", "arrivals"})
"""Objects of which the greatest number of each name counts."""
_ADDED: Final = frozenset({"expectations"})
"""Objects whose numbers are added; in all others, a later number replaces an earlier one."""


class HasShards(Protocol):
    """A job, or a part of what is known of it."""

    @property
    def shards(self) -> tuple[ShardView, ...]:
        """All of its shards."""


def phase_of(job: HasShards) -> Phase:
    """Return the phase of the shard that is furthest from being caught up."""
    phases = {shard.phase for shard in job.shards}
    return next((phase for phase in _WORST_FIRST if phase in phases), Phase.PENDING)


def lag_of(job: HasShards) -> int | None:
    """Return the greatest lag of a shard in milliseconds; None while no shard has reported one."""
    return max((s.lag_ms for s in job.shards if s.lag_ms is not None), default=None)


def progress_of(job: HasShards) -> dict[str, Json]:
    """Return the progress of all shards together: offsets united, counts added.

    `behind` is null while a shard does not know it, and an error is the first one of a shard.
    """
    return progress_of_shards(shard.progress for shard in job.shards)


def progress_of_shards(progress: Iterable[Json]) -> dict[str, Json]:
    """Return the progress of a job from that of its shards, as `progress_of`."""
    reports = [report for report in progress if isinstance(report, dict)]
    names = dict.fromkeys(name for report in reports for name in report)
    merged = {name: _merged(name, [report.get(name) for report in reports]) for name in names}
    if "behind" in merged and any(report.get("behind") is None for report in reports):
        merged["behind"] = None
    return merged


def _merged(name: str, values: Iterable[Json]) -> Json:
    known = [value for value in values if value is not None]
    numbers = [value for value in known if isinstance(value, int | float)]
    dicts = [value for value in known if isinstance(value, dict)]
    lists = [value for value in known if isinstance(value, list)]
    if dicts and name in _GREATEST_EACH:
        return _greatest(dicts)
    if dicts:
        return _united(dicts, added=name in _ADDED)
    if lists:
        return [item for value in lists for item in value]
    if numbers:
        return _number(name, numbers)
    return known[0] if known else None


def _number(name: str, numbers: Sequence[float]) -> int | float:
    if name in _LEAST:
        return min(numbers)
    return max(numbers) if name in _GREATEST else sum(numbers)


def _greatest(values: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    found: dict[str, int] = {}
    for value in values:
        for name, number in value.items():
            if isinstance(number, int):
                found[name] = max(number, found.get(name, number))
    return {**found}


def _united(values: Iterable[Mapping[str, Json]], *, added: bool) -> dict[str, Json]:
    """Unite objects, and the objects in them.

    A later value of a name is added to an earlier one, or replaces it.
    """
    united: dict[str, Json] = {}
    for value in values:
        for name, item in value.items():
            match united.get(name), item:
                case dict() as before, dict():
                    united[name] = _united([before, item], added=added)
                case int() as before, int() if added:
                    united[name] = before + item
                case _:
                    united[name] = item
    return united
