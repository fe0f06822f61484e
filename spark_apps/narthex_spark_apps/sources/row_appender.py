"""Append the rows of a source: facts to the log, rejected rows to the quarantine."""

import json
from collections.abc import Sequence

import attrs

from narthex._base import to_plain
from narthex_spark_apps.sources.row_rendering import Arrived, RowRenderer
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import LogProducer


@attrs.define
class RowAppender:
    """Appends raw rows: facts to the log, rejected rows to the quarantine."""

    job: SourceJob
    renderer: RowRenderer

    @classmethod
    def of(cls, job: SourceJob) -> "RowAppender":
        """Return an appender for a source job."""
        spec = json.dumps(to_plain(job.spec))
        renderer = RowRenderer.of(spec, source_id="", output=job.output, quarantine=job.quarantine)
        return cls(job=job, renderer=renderer)

    def append(
        self, rows: Sequence[Arrived], producer: LogProducer, counts: dict[str, int]
    ) -> None:
        """Append rows and count them; on return, they are durable.

        Raises:
            StoreError: A record could not be appended.
        """
        for made in self.renderer.render(rows):
            counts["rows"] += 1
            counts["left_out"] += not made
            for topic, key, value in made:
                counts["quarantined"] += topic == self.job.quarantine
                producer.post(topic, key=key, value=value)
        producer.flush()
        for name, count in self.renderer.broken.items():
            counts[name] = counts.get(name, 0) + count
        self.renderer.broken.clear()

    def newest_us(self) -> int | None:
        """Return the greatest event time of the accepted rows."""
        return self.renderer.newest_us

    def close(self) -> None:
        """Stop the worker that runs code of the author, if it was started."""
        self.renderer.close()


def no_rows() -> dict[str, int]:
    """Return the counts before the first row."""
    return {"rows": 0, "quarantined": 0, "left_out": 0}
