"""Sources that are asked again and again for what is new, and what all of them do with rows."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import attrs

from narthex._base import SECOND_US, to_plain
from narthex.settings import Settings
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.validated_rows import Arrived, RowRenderer
from narthex_stores import LogProducer


@attrs.define
class RowAppender:
    """Appends what becomes of raw rows: facts to the log, refused rows to the quarantine."""

    job: SourceJob
    renderer: RowRenderer

    @classmethod
    def of(cls, job: SourceJob) -> "RowAppender":
        """Prepare for a source job."""
        spec = json.dumps(to_plain(job.spec))
        renderer = RowRenderer.of(spec, source_id="", output=job.output, quarantine=job.quarantine)
        return cls(job=job, renderer=renderer)

    def append(
        self, rows: Sequence[Arrived], producer: LogProducer, counts: dict[str, int]
    ) -> None:
        """Append rows and count them; when it returns, what became of them stands.

        Raises:
            StoreError: Something could not be appended.
        """
        for made in self.renderer.render(rows):
            counts["rows"] += 1
            counts["left_out"] += not made
            for topic, key, value in made:
                counts["quarantined"] += topic == self.job.quarantine
                producer.post(topic, key=key, value=value)
        producer.flush()

    def newest_us(self) -> int | None:
        """Return the greatest event time of the rows that were admitted."""
        return self.renderer.newest_us

    def close(self) -> None:
        """End the worker that ran code of the author, if one was started."""
        self.renderer.close()


class PollingSource(ABC):
    """A source that does not come by a topic of ours: whoever runs its job asks it.

    What it gives stands at a place of its own in the source, so that what is read again after a
    crash is the same facts.
    """

    default_every_us: ClassVar[int]
    """How often such a source is asked where its author does not say, microseconds."""

    def __init__(self, job: SourceJob, *, memory: Path) -> None:
        """Remember how far it was read in the file `memory`."""
        self._job = job
        self._memory = memory
        self._appender = RowAppender.of(job)

    @property
    def every_s(self) -> float:
        """How often it is asked, seconds."""
        return (self._job.spec.source.every_us or self.default_every_us) / SECOND_US

    @abstractmethod
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read to where the source ends now; return how many rows came, were refused and left out.

        Args:
            producer: What facts are appended by; they stand when this returns.
            stopped: Asked between batches.
        """

    def newest_us(self) -> int | None:
        """Return the greatest event time of the rows that this process admitted."""
        return self._appender.newest_us()

    def close(self) -> None:
        """Let go of what it holds."""
        self._appender.close()


class OpensPollingSource(Protocol):
    """Opens one kind of polling sources."""

    def __call__(self, job: SourceJob, *, settings: Settings, memory: Path) -> PollingSource:
        """Open the source of a job, which remembers how far it was read in the file `memory`."""


def no_rows() -> dict[str, int]:
    """Return the counts of a reading that has just begun."""
    return {"rows": 0, "quarantined": 0, "left_out": 0}
