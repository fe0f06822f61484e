"""A sink into a Delta table: one table row for each current row, by `MERGE`.

Each commit contains, as Delta's application transaction, the sink's name and the mark of its
changes. Changes repeated after a crash find their mark and change nothing, and the table itself
refuses a run that was taken over: each change is in the table exactly once.
"""

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from typing_extensions import override

from narthex._ir import Files, SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.sinks.changes import RowChange
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, Target
from narthex_spark_apps.sinks.table_rows import ROW_COLUMN, SinkTableLayout, net
from narthex_stores import LogRow, public, storage_options, to_table

_GONE = "_narthex_gone"


class DeltaSink(Target):
    """One table, created at the first write."""

    def __init__(
        self, path: str, *, name: str, spec: SinkJobSpec, storage: Mapping[str, str]
    ) -> None:
        """Write to the table at a path or an `s3://` address, as the application `name`."""
        self._path = path
        self._name = name
        self._spec = spec
        self._storage = dict(storage)
        self._layout = SinkTableLayout.of(spec)

    @override
    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Commit the rows after the changes, unless the table has them already."""
        rows = self._rows(net(changes))
        try:
            table = self._open(rows.schema)
            known = table.transaction_version(self._name) or 0
            if known < mark:
                self._merge(table, rows, mark)
        except (CommitFailedError, DeltaError, OSError) as error:
            raise SinkFailedError(f"`{self._path}`: {error}") from error
        if known > mark:
            raise SinkFailedError(f"a newer run writes to `{self._path}`")

    def _rows(self, changes: Sequence[RowChange]) -> pa.Table:
        facts = [change.fact for change in changes]
        states = to_table(self._spec.log, [LogRow(0, 0, fact) for fact in facts])
        shown = public(self._spec.log, states).select(list(self._layout.names))
        rows = shown.rename_columns(list(self._layout.names.values()))
        if ROW_COLUMN in self._layout.types:
            names = pa.array([change.identity.hex() for change in changes], pa.string())
            rows = rows.add_column(0, ROW_COLUMN, names)
        gone = pa.array([change.after is None for change in changes], pa.bool_())
        return rows.append_column(_GONE, gone)

    def _open(self, schema: pa.Schema) -> DeltaTable:
        try:
            return DeltaTable(self._path, storage_options=self._storage)
        except TableNotFoundError:
            fields = [field for field in schema if field.name != _GONE]
            return DeltaTable.create(
                self._path,
                schema=pa.schema(fields),
                mode="ignore",
                name=self._spec.dataset,
                storage_options=self._storage,
            )

    def _merge(self, table: DeltaTable, rows: pa.Table, mark: int) -> None:
        same = " AND ".join(f't."{name}" = s."{name}"' for name in self._layout.identity)
        values = {f'"{name}"': f's."{name}"' for name in self._layout.types}
        (
            table.merge(
                rows,
                predicate=same,
                source_alias="s",
                target_alias="t",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(self._name, mark)],
                    # A concurrent committer is a run that was taken over, or that took over.
                    max_commit_retries=0,
                ),
            )
            .when_matched_delete(predicate=f"s.{_GONE}")
            .when_matched_update(updates=values, predicate=f"NOT s.{_GONE}")
            .when_not_matched_insert(updates=values, predicate=f"NOT s.{_GONE}")
            .execute()
        )

    @override
    def close(self) -> None:
        """Do nothing: the sink has no open resources."""


def open_target(spec: SinkJobSpec, *, name: str, settings: Settings) -> DeltaSink:
    """Open the target of a sink.

    Raises:
        TypeError: The sink has another kind of target.
    """
    target = spec.sink.target
    if not isinstance(target, Files):
        raise TypeError("not a table of files")
    at = target.path.removesuffix("/**")
    where = at if "://" in at else str(settings.files_root / at)
    return DeltaSink(where, name=name, spec=spec, storage=storage_options(os.environ))
