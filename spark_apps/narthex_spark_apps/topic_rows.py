"""Records of a topic, admitted and rendered by `narthex.admission`: the bounded run of a source.

Runs in Spark's Python workers; the live run, `source_stage`, takes the same rows from a record.
"""

import json
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa

from narthex.records import Json
from narthex_spark_apps.admitted_rows import Arrived, Place, RowRenderer, render_batch

INPUT = ("partition", "offset", "now", "value")


@attrs.frozen(kw_only=True)
class TopicRun:
    """What a worker must know of a source whose rows come by a topic.

    Attributes:
        spec: The source job's spec, as plain JSON text.
    """

    spec: str
    output: str
    quarantine: str
    reader: "TopicReader"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the records of the rows in batches with the columns `INPUT`."""
        renderer = RowRenderer.of(
            self.spec, source_id="", output=self.output, quarantine=self.quarantine
        )
        try:
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in INPUT)
                arrived = [
                    one
                    for partition, offset, now_us, value in zip(*columns, strict=True)
                    for one in self.reader.rows(
                        value, partition=partition, offset=offset, now_us=now_us
                    )
                ]
                rendered = [record for made in renderer.render(arrived) for record in made]
                if rendered:
                    yield render_batch(rendered)
        finally:
            renderer.close()


@attrs.frozen(kw_only=True)
class TopicReader:
    """Takes the raw rows out of records of a topic.

    Attributes:
        calls: Whether a record is a call with many rows, as the server writes them.
        envelopes: Whether rows are envelopes of Debezium: a record without a value follows the
            one that says that the row is gone, and says nothing more.
    """

    calls: bool
    envelopes: bool

    def rows(
        self, value: bytes | None, *, partition: int, offset: int, now_us: int
    ) -> list[Arrived]:
        """Give the rows of one record; what is no JSON object is one row, as its text."""
        if value is None and self.envelopes:
            return []
        found = _rows_of(value or b"", calls=self.calls)
        return [
            Arrived(
                place=Place(partition=partition, offset=offset, ordinal=ordinal),
                row=row,
                now_us=now_us,
            )
            for ordinal, row in enumerate(found)
        ]


def _rows_of(value: bytes, *, calls: bool) -> list[dict[str, Json] | str]:
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
