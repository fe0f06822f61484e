"""Sources of files: each file is read once, its rows numbered as they stand in it.

A file is no stream of Spark's: its rows need their ordinal, which only a read of the whole file
in one piece gives. What was read is remembered beside the checkpoint; a file that is read again
gives the same facts.
"""

import glob
import json
import os
from pathlib import Path
from typing import assert_never

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from narthex.entities import Csv, Files, JsonLines, Parquet
from narthex.settings import Settings
from narthex_spark_apps.admission_columns import NOW, ROW
from narthex_spark_apps.kafka_io import Broker, write_batch
from narthex_spark_apps.source_job import COUNTS, SourceJob, source_records

_ONE_PIECE = str(1 << 60)
_GLOB = frozenset("*?[")


class NoFilesError(FileNotFoundError):
    """Nothing stands where a source of files says."""


def list_files(connector: Files, root: Path) -> tuple[Path, ...]:
    """Give the files of a source, in the order of their paths.

    Raises:
        NoFilesError: A path without a glob is no file.
        NotImplementedError: The path is an address of a store that is not built in yet.
    """
    if "://" in connector.path:
        raise NotImplementedError(f"`{connector.path}`: only local files are read so far")
    pattern = str(root / connector.path)
    if is_glob(connector.path):
        # `Path.glob` takes no pattern that begins at the root, which an author may give.
        return tuple(Path(one) for one in sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207
    if not Path(pattern).is_file():
        raise NoFilesError(f"`{pattern}` is no file; the source `{connector.name}` names it")
    return (Path(pattern),)


def is_glob(path: str) -> bool:
    """Whether a path names files by a pattern."""
    return bool(_GLOB & set(path))


def identity_of(source_id: str, connector: Files, file: Path, root: Path) -> str:
    """Give the source string of a file's rows: one file's is the source's own.

    Files that a pattern finds have their path in it, so that a new file moves no row's identity.
    """
    if not is_glob(connector.path):
        return source_id
    return f"{source_id}#{os.path.relpath(file, root)}"


class FileSource:
    """The files of one source job, and which of them were read."""

    def __init__(
        self, session: SparkSession, job: SourceJob, *, settings: Settings, memory: Path
    ) -> None:
        """Remember what was read in the file `memory`."""
        connector = job.spec.source.connector
        if not isinstance(connector, Files):
            raise TypeError("only a source of files has files")
        # A session of its own: no other job's files must be read in one piece.
        self._session = session.newSession()
        self._session.conf.set("spark.sql.files.maxPartitionBytes", _ONE_PIECE)
        self._connector = connector
        self._job = job
        self._settings = settings
        self._memory = memory

    def unread(self) -> tuple[Path, ...]:
        """Give the files that were not read yet, in order."""
        known = self._known()
        files = list_files(self._connector, self._settings.files_root)
        return tuple(file for file in files if self._name(file) not in known)

    def read(self, file: Path) -> dict[str, int]:
        """Read one file to its end; give how many rows came, were refused and were left out."""
        source_id = identity_of(
            self._job.spec.source_id, self._connector, file, self._settings.files_root
        )
        rows = self._rows(file)
        counts = Observation(COUNTS)
        records = source_records(rows, self._job, source_id=source_id, counts=counts)
        write_batch(records, Broker(bootstrap=self._settings.kafka))
        self._remember(file)
        return {name: number or 0 for name, number in counts.get.items()}

    def _name(self, file: Path) -> str:
        return os.path.relpath(file, self._settings.files_root)

    def _known(self) -> frozenset[str]:
        if not self._memory.is_file():
            return frozenset()
        return frozenset(json.loads(self._memory.read_text()))

    def _remember(self, file: Path) -> None:
        known = sorted(self._known() | {self._name(file)})
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._memory.with_suffix(".new")
        fresh.write_text(json.dumps(known))
        fresh.replace(self._memory)

    def _rows(self, file: Path) -> DataFrame:
        match self._connector.format:
            case Csv() as csv:
                rows = self._csv(file, csv)
            case JsonLines():
                lines = self._session.read.text(str(file)).withColumnRenamed("value", "payload")
                rows = lines.where(sf.trim("payload") != "").withColumn("ordinal", _number())
            case Parquet():
                rows = self._parquet(file)
            case _:
                assert_never(self._connector.format)
        return rows.withColumns(
            {
                "partition": sf.lit(0),
                "offset": sf.lit(0).cast("long"),
                # A file's rows have no arrival that a second reading repeats.
                NOW: sf.lit(None).cast("long"),
            }
        )

    def _csv(self, file: Path, csv: Csv) -> DataFrame:
        reader = (
            self._session.read.option("header", csv.headers is None)
            .option("sep", csv.delimiter)
            .option("nullValue", csv.null)
            .option("multiLine", "true")
            .option("quote", '"')
            .option("escape", '"')
            .option("encoding", "UTF-8")
        )
        if csv.headers is not None:
            columns = ", ".join(f"`{name}` string" for name in csv.headers)
            reader = reader.schema(columns)
        texts = reader.csv(str(file))
        return _with_row(texts.withColumn("ordinal", _number()), texts.columns)

    def _parquet(self, file: Path) -> DataFrame:
        table = self._session.read.parquet(str(file))
        numbered = table.withColumn("ordinal", sf.col("_metadata.row_index").cast("int"))
        return _with_row(numbered, table.columns)


def _number() -> sf.Column:
    # One file in one piece is one partition, in which this counts from 0.
    return sf.monotonically_increasing_id().cast("int")


def _with_row(rows: DataFrame, names: list[str]) -> DataFrame:
    """Give rows of columns as a variant `row` with a JSON `payload` for the quarantine."""
    fields = [sf.col(f"`{name}`").alias(name) for name in names]
    row = sf.struct(*fields)
    return rows.select(
        "ordinal",
        sf.to_variant_object(row).alias(ROW),
        sf.to_json(row).alias("payload"),
    )
