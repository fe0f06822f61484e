"""File sources: each file is read once, its rows numbered in the order of the file.

Files are not a Spark stream: the rows need their ordinal, which requires reading a whole file in
one piece. The names of read files are stored beside the checkpoint; reading a file again yields
the same facts.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pyspark import AccumulatorParam
from pyspark.sql import SparkSession

from narthex._base import atomic_write, to_plain
from narthex._ir import Files, TableFormat
from narthex.settings import Settings
from narthex_spark_apps.platform.author_places import require_path
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.kafka_io import write_batch
from narthex_spark_apps.platform.record_batches import OUTPUT
from narthex_spark_apps.sources.files.dated_paths import may_have_rows
from narthex_spark_apps.sources.files.delta_changes import table_of, versions_of
from narthex_spark_apps.sources.files.rows import FileRun
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.storage.file_store import environment_of, find_files, is_glob, is_url
from narthex_stores import platform_broker, storage_options


class _AddedCounts(AccumulatorParam[dict[str, int]]):
    """Adds counts by name in an accumulator of Spark."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        return dict.fromkeys(value, 0)

    def addInPlace(  # noqa: N802 (the name that Spark calls)
        self, value1: dict[str, int], value2: dict[str, int]
    ) -> dict[str, int]:
        for name, count in value2.items():
            value1[name] = value1.get(name, 0) + count
        return value1


class NoFilesError(FileNotFoundError):
    """The file of a file source does not exist."""


def list_files(
    connector: Files, root: Path, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the files of a source, in the order of their paths; for a table, its versions.

    Raises:
        NoFilesError: A path without a glob names no existing file.
        UnknownStoreError: The path is an address of a store that is not supported.
        UnreadableTableError: The source declares a table, but the path has none.
    """
    if isinstance(connector.format, TableFormat):
        at = table_of(connector.path)
        whole = at if is_url(at) else str(root / at)
        storage = storage_options({} if environment is None else environment)
        return versions_of(whole, storage, root=root)
    found = find_files(connector.path, root, environment)
    if not found and not is_glob(connector.path):
        where = connector.path if is_url(connector.path) else str(root / connector.path)
        raise NoFilesError(f"`{where}` is not a file; the source `{connector.name}` reads it")
    return found


def identity_of(source_id: str, connector: Files, file: str, root: Path) -> str:
    """Return the source id of a file's rows: for a single file, the id of the source.

    For files of a pattern it contains the path, so that a new file changes no row's identity.
    """
    if not is_glob(connector.path) or isinstance(connector.format, TableFormat):
        return source_id
    return f"{source_id}#{name_of(file, root)}"


def name_of(file: str, root: Path) -> str:
    """Return a name of a file that does not change when the root moves."""
    return file if is_url(file) else os.path.relpath(file, root)


class FileSource:
    """The files of one source job, and which of them were read."""

    def __init__(
        self, session: SparkSession, job: SourceJob, *, settings: Settings, memory: Path
    ) -> None:
        """Keep the names of read files in the file `memory`."""
        connector = job.spec.source.connector
        if not isinstance(connector, Files):
            raise TypeError("the spec is not a file source")
        self._session = session
        self._connector = connector
        self._job = job
        self._settings = settings
        self._memory = memory

    def unread(self) -> tuple[str, ...]:
        """Return the files that were not read yet, in order.

        With `spread`, files whose dates are outside the source's `since` and `until` are skipped.
        """
        known = self._known()
        require_path(self._connector, self._settings)
        secrets = AuthorSecrets.of(self._settings)
        environment = environment_of(self._connector, secrets)
        files = list_files(self._connector, self._settings.files_root, environment)
        unread = (file for file in files if self._name(file) not in known)
        spread_us = self._connector.spread_us
        if spread_us is None:
            return tuple(unread)
        source, path = self._job.spec.source, self._connector.path
        return tuple(
            file for file in unread if may_have_rows(source, path, self._name(file), spread_us)
        )

    def read(self, file: str) -> dict[str, int]:
        """Read one file to its end; return the numbers of read, quarantined and filtered rows."""
        source_id = identity_of(
            self._job.spec.source_id, self._connector, file, self._settings.files_root
        )
        context = self._session.sparkContext
        counted = {name: context.accumulator(0) for name in ("rows", "quarantined", "left_out")}
        broken = context.accumulator({}, _AddedCounts())
        run = FileRun(
            spec=json.dumps(to_plain(self._job.spec)),
            output=self._job.output,
            quarantine=self._job.quarantine,
            counted=counted,
            broken=broken,
            secrets=AuthorSecrets.of(self._settings),
            root=self._settings.files_root,
        )
        named = self._session.createDataFrame([(file, source_id)], "path string, id string")
        records = named.mapInArrow(run, OUTPUT)
        write_batch(records, platform_broker(self._settings))
        self._remember(file)
        found = {name: int(count.value) for name, count in counted.items()}
        return {**found, **broken.value}

    def _name(self, file: str) -> str:
        return name_of(file, self._settings.files_root)

    def _known(self) -> frozenset[str]:
        if not self._memory.is_file():
            return frozenset()
        return frozenset(json.loads(self._memory.read_text()))

    def _remember(self, file: str) -> None:
        known = sorted(self._known() | {self._name(file)})
        atomic_write(self._memory, json.dumps(known))
