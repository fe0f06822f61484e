"""The rows of one file, validated and rendered: the Python stage of a file source.

Files are bounded and never run in real time, so the Python implementation,
`narthex._runtime.ingest.row_parser`, validates each row. Runs in Spark's Python workers; memory
holds one batch of a file.
"""

import contextlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import attrs
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyspark.accumulators import Accumulator

from narthex._base import GREATEST_DEPTH, Json, is_deeper
from narthex._ir import Csv, Files, JsonLines, Parquet, TableFormat
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.record_batches import RecordCells, record_batch
from narthex_spark_apps.sources.files.delta_changes import arrived_rows, render_version
from narthex_spark_apps.sources.row_rendering import (
    Arrived,
    RawRowPosition,
    RowRenderer,
)
from narthex_spark_apps.storage.file_store import environment_of, open_file, open_stream
from narthex_stores import storage_options

_BATCH = 10_000
_BLOCK_BYTES = 4 * 1024 * 1024


class UnreadableFileError(ValueError):
    """A file is not in the format that its source declares."""


@attrs.frozen(kw_only=True)
class FileRun:
    """The parameters of a file source that a worker needs.

    Attributes:
        spec: The source job's spec, as plain JSON text.
        counted: Spark's accumulators of all rows, and of quarantined and filtered ones.
        broken: Spark's accumulator of the counts of rows that break expectations.
        secrets: Finds the secrets for the store.
        root: The directory that contains the local files.
    """

    spec: str
    output: str
    quarantine: str
    counted: Mapping[str, Accumulator]
    broken: Accumulator
    secrets: AuthorSecrets
    root: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of the files that are named in columns `path` and `source_id`."""
        for batch in batches:
            for path, source_id in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                yield from self._records(str(path), str(source_id))

    def _records(self, path: str, source_id: str) -> Iterator[pa.RecordBatch]:
        renderer = RowRenderer.of(
            self.spec, source_id=source_id, output=self.output, quarantine=self.quarantine
        )
        try:
            for rendered in self._rendered(renderer, path):
                self._count(rendered)
                self.broken.add(dict(renderer.broken))
                renderer.broken.clear()
                records = [record for made in rendered for record in made]
                if records:
                    yield record_batch(records)
        finally:
            renderer.close()

    def _rendered(
        self, renderer: RowRenderer, path: str
    ) -> Iterator[Sequence[tuple[RecordCells, ...]]]:
        connector = renderer.spec.source.connector
        if not isinstance(connector, Files):
            raise TypeError("the spec is not a file source")
        environment = environment_of(connector, self.secrets)
        if isinstance(connector.format, TableFormat):
            yield render_version(
                renderer, arrived_rows(path, storage_options(environment), root=self.root)
            )
            return
        # No arrival time of a file's row is the same at a second read, so `now` is the epoch.
        arrived = (
            Arrived(place=RawRowPosition(ordinal=ordinal), row=row, now_us=0)
            for ordinal, row in enumerate(read_rows(connector, path, environment, root=self.root))
        )
        while batch := list(itertools.islice(arrived, _BATCH)):
            yield renderer.render(batch)

    def _count(self, rendered: Sequence[tuple[RecordCells, ...]]) -> None:
        refused = sum(topic == self.quarantine for made in rendered for topic, _, _ in made)
        self.counted["rows"].add(len(rendered))
        self.counted["left_out"].add(sum(not made for made in rendered))
        self.counted["quarantined"].add(refused)


def read_rows(
    connector: object, path: str, environment: Mapping[str, str] | None = None, *, root: Path
) -> Iterator[dict[str, Json] | str]:
    """Yield the raw rows of a file, in order; a line that is not a JSON object yields its text.

    Raises:
        OutsideError: The file is not below the root, or is reached over a link.
        UnreadableFileError: The file is not in the declared format.
    """
    if not isinstance(connector, Files):
        raise TypeError("the spec is not a file source")
    try:
        match connector.format:
            case Csv() as csv:
                yield from _csv_rows(partial(open_stream, path, environment, root=root), csv)
            case Parquet():
                with open_file(path, environment, root=root) as file:
                    for batch in pq.ParquetFile(file).iter_batches(batch_size=_BATCH):
                        yield from batch.to_pylist()
            case JsonLines():
                yield from _json_rows(open_stream(path, environment, root=root))
            case TableFormat(kind=kind):
                raise UnreadableFileError(
                    f"`{path}` has the format {kind}, which is not a file format"
                )
    except pa.ArrowInvalid as error:
        raise UnreadableFileError(f"`{path}`: {error}") from error


def _csv_rows(opened: Callable[[], IO[bytes]], csv: Csv) -> Iterator[dict[str, Json]]:
    reading = pa_csv.ReadOptions(
        column_names=list(csv.headers) if csv.headers is not None else None,
        block_size=_BLOCK_BYTES,
        use_threads=False,
    )
    parsing = pa_csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True)
    with opened() as file:
        names = csv.headers or tuple(pa_csv.open_csv(file, reading, parsing).schema.names)
    converting = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=[csv.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    with opened() as file:
        for batch in pa_csv.open_csv(file, reading, parsing, converting):
            yield from batch.to_pylist()


def _json_rows(opened: IO[bytes]) -> Iterator[dict[str, Json] | str]:
    # A byte that is not UTF-8 becomes a lone surrogate, which the type check refuses.
    with io.TextIOWrapper(opened, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if not line.strip():
                continue
            row = None
            if not is_deeper(line.encode(errors="surrogateescape"), GREATEST_DEPTH):
                with contextlib.suppress(ValueError):
                    row = json.loads(line)
            yield row if isinstance(row, dict) else line
