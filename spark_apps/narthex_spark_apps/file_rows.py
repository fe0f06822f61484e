# mypy: disable-error-code="arg-type"
"""The rows of one file, admitted and rendered: the Python stage of a source of files.

Files are bounded and never run in real time, so the truth itself, `narthex.admission`, decides
what becomes of each row. Runs in Spark's Python workers; memory holds one batch of a file.
"""

import json
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from narthex.admission import Admitted, Admitter, LeftOut, Refused
from narthex.assets import LogShape, SourceJobSpec
from narthex.codec import encode as fact_codec
from narthex.codec import key_encoder, keyed_row_id
from narthex.entities import Cdc, Csv, Files, JsonLines, Parquet
from narthex.facts import Cell, Fact, RowId, Version, position
from narthex.records import Json, from_plain

OUTPUT = "topic string, key binary, value binary"
_SCHEMA = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
_BATCH = 10_000
_BLOCK_BYTES = 4 * 1024 * 1024
_APPENDED = Version(b"\x00")


class UnreadableFileError(ValueError):
    """A file is not in the format that its source declares."""


@attrs.frozen(kw_only=True)
class FileRun:
    """What a worker must know of a source of files.

    Attributes:
        spec: The source job's spec, as plain JSON text.
    """

    spec: str
    output: str
    quarantine: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the records of the files that are named in columns `path` and `source_id`."""
        spec = from_plain(json.loads(self.spec))
        if not isinstance(spec, SourceJobSpec):
            raise TypeError("not the spec of a source")
        for batch in batches:
            for path, source_id in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                yield from self._records(spec, str(path), str(source_id))

    def _records(self, spec: SourceJobSpec, path: str, source_id: str) -> Iterator[pa.RecordBatch]:
        renderer = _Renderer(
            spec=spec,
            source_id=source_id,
            run=self,
            admitter=Admitter.of(spec.source, spec.schema),
        )
        waiting: list[tuple[str | None, bytes | None, bytes | None]] = []
        for ordinal, row in enumerate(read_rows(spec.source.connector, path)):
            waiting.append(renderer.record(ordinal, row))
            if len(waiting) >= _BATCH:
                yield _batch(waiting)
                waiting = []
        if waiting:
            yield _batch(waiting)


def _batch(records: list[tuple[str | None, bytes | None, bytes | None]]) -> pa.RecordBatch:
    columns = zip(*records, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


@attrs.define
class _Renderer:
    """Turns raw rows of one file into records; a topic of None says: left out."""

    spec: SourceJobSpec
    source_id: str
    run: FileRun
    admitter: Admitter

    def record(
        self, ordinal: int, row: dict[str, Json] | str
    ) -> tuple[str | None, bytes | None, bytes | None]:
        place = position(self.source_id, 0, 0, ordinal)
        if isinstance(row, str):
            return self._refusal(place, ordinal, row, "the line is no JSON object", None)
        match self.admitter.admit(row, now_us=0):
            case LeftOut():
                return None, None, None
            case Refused(problems=problems):
                reason = "; ".join(str(problem) for problem in problems)
                return self._refusal(place, ordinal, json.dumps(row), reason, problems[0].field)
            case Admitted(cells=cells):
                return self._fact(place, cells)

    def _fact(self, place: bytes, cells: dict[str, Cell]) -> tuple[str, bytes, bytes]:
        log = self.spec.log
        key = tuple(cells[column.name] for column in log.keys)
        instant = cells[log.time_field]
        if not isinstance(instant, int):
            raise TypeError("an event time is microseconds")
        row_id, version, record_key = RowId(place), _APPENDED, place
        if log.shape is LogShape.KEYED or self.spec.source.cdc is Cdc.UPSERT:
            record_key = key_encoder(log.keys)(key)
            row_id, version = keyed_row_id(record_key, instant), Version(place)
        fact = Fact(
            row_id=row_id,
            version=version,
            event_time=instant,
            key=key,
            values=tuple(cells[column.name] for column in log.values),
        )
        return self.run.output, record_key, fact_codec(log).encode(fact)

    def _refusal(
        self, place: bytes, ordinal: int, payload: str, reason: str, field: str | None
    ) -> tuple[str, bytes, bytes]:
        described = {
            "payload": payload,
            "reason": reason,
            "source": self.source_id,
            "partition": 0,
            "offset": 0,
            "ordinal": ordinal,
            "field": field,
        }
        return self.run.quarantine, place, json.dumps(described).encode()


def read_rows(connector: object, path: str) -> Iterator[dict[str, Json] | str]:
    """Give the raw rows of a file, in order; a line that is no JSON object comes as its text.

    Raises:
        UnreadableFileError: The file is not in the declared format.
    """
    if not isinstance(connector, Files):
        raise TypeError("only a source of files has files")
    try:
        match connector.format:
            case Csv() as csv:
                yield from _csv_rows(path, csv)
            case Parquet():
                for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH):
                    yield from batch.to_pylist()
            case JsonLines():
                yield from _json_rows(path)
    except pa.ArrowInvalid as error:
        raise UnreadableFileError(f"`{path}`: {error}") from error


def _csv_rows(path: str, csv: Csv) -> Iterator[dict[str, Json]]:
    reading = pa_csv.ReadOptions(
        column_names=list(csv.headers) if csv.headers is not None else None,
        block_size=_BLOCK_BYTES,
        use_threads=False,
    )
    parsing = pa_csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True)
    names = csv.headers or tuple(pa_csv.open_csv(path, reading, parsing).schema.names)
    converting = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=[csv.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    for batch in pa_csv.open_csv(path, reading, parsing, converting):
        yield from batch.to_pylist()


def _json_rows(path: str) -> Iterator[dict[str, Json] | str]:
    with open(path, encoding="utf-8") as lines:  # noqa: PTH123 - a path of a worker's own
        for line in lines:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            yield row if isinstance(row, dict) else line
