"""Sources that are polled for new rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Protocol

from narthex._base import SECOND_US
from narthex.settings import Settings
from narthex_spark_apps.sources.row_appender import RowAppender
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import LogProducer


class PollingSource(ABC):
    """A source that is not a topic: the process of its job polls it.

    Each row has its own position in the source, so reading it again after a crash yields the same
    facts.
    """

    default_every_us: ClassVar[int]
    """The polling interval if the author sets none, in microseconds."""

    def __init__(self, job: SourceJob, *, memory: Path) -> None:
        """Keep the read position in the file `memory`."""
        self._job = job
        self._memory = memory
        self._appender = RowAppender.of(job)

    @property
    def every_s(self) -> float:
        """The polling interval, in seconds."""
        return (self._job.spec.source.every_us or self.default_every_us) / SECOND_US

    @abstractmethod
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read up to the source's current end; count the read, quarantined and filtered rows.

        Args:
            producer: Appends the facts; they are durable on return.
            stopped: Called between batches; True stops the read.
        """

    def newest_us(self) -> int | None:
        """Return the greatest event time of the rows that this process accepted."""
        return self._appender.newest_us()

    def close(self) -> None:
        """Close connections and workers."""
        self._appender.close()


class OpensPollingSource(Protocol):
    """Opens polling sources of one kind."""

    def __call__(self, job: SourceJob, *, settings: Settings, memory: Path) -> PollingSource:
        """Open the source of a job, which keeps its read position in the file `memory`."""
