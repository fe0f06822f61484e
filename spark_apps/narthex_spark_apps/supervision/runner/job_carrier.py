"""The interface of the loop to each runner: how it runs its jobs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

import attrs

from narthex_spark_apps.supervision.runner.progress import Progress
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment


@attrs.frozen
class Ended:
    """The end of a run that was not asked to stop.

    Attributes:
        error: Why it failed; None to start the next run at once, for example with other settings.
        is_final: Whether no later run of the job can succeed under this epoch.
    """

    shard_id: ShardId
    error: Exception | None = None
    is_final: bool = False


def attempt(shard_id: ShardId, work: Callable[[], object]) -> Iterator[Ended]:
    """Do some work of one run; an error ends that run alone."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 (the loop logs it; other runs must go on)
        yield Ended(shard_id, error)


class Run(Protocol):
    """A shard of a job under one epoch, from its start until it is over."""

    def observe(self, progress: Progress) -> None:
        """Bring the progress of the job up to date before it is reported."""

    def stop(self) -> None:
        """Write what was taken in, then end; return at once if that takes time."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, once it was stopped: the next run of its job may start."""


RunT = TypeVar("RunT", bound=Run)


class Carrier(Protocol[RunT]):
    """Carries jobs out, each as a run under one epoch.

    The loop decides what runs, calls every method from one thread, and has at most one run of a
    job at a time. How runs share processes, threads and queries is the carrier's choice.

    Attributes:
        turn_s: How long the loop waits for assignments in each turn; 0 if `advance` itself waits.
        expected: Errors that a job's operator or author can resolve; others are logged as bugs.
    """

    turn_s: float

    @property
    def expected(self) -> tuple[type[Exception], ...]: ...

    def adopt(self, desired: Mapping[ShardId, WorkAssignment], /) -> None:
        """Note all shards that are desired from now on, before any of them starts."""

    def start(self, assignment: WorkAssignment, progress: Progress) -> RunT:
        """Start a run of a job; any error is a failure of that job.

        Args:
            assignment: The job and its epoch.
            progress: The progress of the job, which earlier runs of this epoch reported too.
        """
        ...

    def advance(self, runs: Mapping[ShardId, RunT]) -> Iterable[Ended]:
        """Do one turn's work of all runs, by shard; return the runs that ended."""
        ...
