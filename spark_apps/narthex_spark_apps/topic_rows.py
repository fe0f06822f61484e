"""Records of a topic, admitted and rendered in Python: for sources that Spark alone cannot read.

An expression in `preproc` or `where` for which Spark has nothing exact makes the source run here,
in micro-batches, by `narthex.admission` itself.
"""

import json
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa

from narthex.records import Json
from narthex_spark_apps.admitted_rows import Place, RecordCells, RowRenderer, render_batch

INPUT = ("partition", "offset", "now", "value")


@attrs.frozen(kw_only=True)
class TopicRun:
    """What a worker must know of a source whose rows come by a topic.

    Attributes:
        spec: The source job's spec, as plain JSON text.
        calls: Whether a record is a call with many rows, as the server writes them.
    """

    spec: str
    output: str
    quarantine: str
    calls: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the records of the rows in batches with the columns `INPUT`."""
        renderer = RowRenderer.of(
            self.spec, source_id="", output=self.output, quarantine=self.quarantine
        )
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in INPUT)
            rendered: list[RecordCells] = []
            for partition, offset, now_us, value in zip(*columns, strict=True):
                for ordinal, row in enumerate(self._rows(value or b"")):
                    place = Place(partition=partition, offset=offset, ordinal=ordinal)
                    rendered.append(renderer.record(place, row, now_us=now_us))
            if rendered:
                yield render_batch(rendered)

    def _rows(self, value: bytes) -> list[dict[str, Json] | str]:
        said = _parsed(value)
        if not self.calls:
            return [said]
        rows = said.get("rows") if isinstance(said, dict) else None
        if not isinstance(rows, list):
            return [value.decode(errors="replace")]
        return [row if isinstance(row, dict) else json.dumps(row) for row in rows]


def _parsed(value: bytes) -> dict[str, Json] | str:
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else value.decode(errors="replace")
