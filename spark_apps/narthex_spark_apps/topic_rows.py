"""Records of a topic, admitted and rendered by `narthex.admission`: the bounded run of a source.

Runs in Spark's Python workers; the live run, `source_stage`, takes the same rows from a record.
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
                for ordinal, row in enumerate(rows_of(value or b"", calls=self.calls)):
                    place = Place(partition=partition, offset=offset, ordinal=ordinal)
                    rendered.append(renderer.record(place, row, now_us=now_us))
            if rendered:
                yield render_batch(rendered)


def rows_of(value: bytes, *, calls: bool) -> list[dict[str, Json] | str]:
    """Take the raw rows out of a record; what is no JSON object is one row, as its text.

    Args:
        value: The record's payload.
        calls: Whether it is a call with many rows, as the server writes them.
    """
    said = _parsed(value)
    if not calls:
        return [said]
    rows = said.get("rows") if isinstance(said, dict) else None
    if not isinstance(rows, list):
        # What the server never writes is one row that is refused, not none.
        return [value.decode(errors="replace")]
    return [row if isinstance(row, dict) else json.dumps(row) for row in rows]


def _parsed(value: bytes) -> dict[str, Json] | str:
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else value.decode(errors="replace")
