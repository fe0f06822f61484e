"""Sources from the change data feed of a Delta table, read one version after the other.

The position of a row is (version, its ordinal in a fixed order of the version's rows). A row that
an update or a delete removed ends, unless the same version contains a row of its key.
"""

import datetime as dt
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from narthex._base import Json
from narthex_spark_apps.platform.json_values import plain
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_spark_apps.sources.row_rendering import (
    Arrived,
    RawRowPosition,
    RowRenderer,
)
from narthex_stores import require_no_links

_MARK = "@"
_TYPE, _AT = "_change_type", "_commit_timestamp"
_OWN = frozenset({_TYPE, _AT, "_commit_version"})
_GONE = frozenset({"delete", "update_preimage"})


class UnreadableTableError(OSError):
    """A table does not exist, or has no change data feed."""


def table_of(path: str) -> str:
    """Return the path of the table that contains a pattern's files."""
    return path.removesuffix("/**").rstrip("/")


def versions_of(path: str, storage: Mapping[str, str], *, root: Path) -> tuple[str, ...]:
    """Return the versions of a table, the first one first.

    Raises:
        OutsideError: The table is not below the root, or has a link in it.
        UnreadableTableError: The table does not exist, or its store does not answer.
    """
    newest = _open(path, storage, root).version()
    return tuple(f"{path}{_MARK}{number}" for number in range(newest + 1))


def arrived_rows(named: str, storage: Mapping[str, str], *, root: Path) -> list[Arrived]:
    """Return the changes of one version as envelopes, deletions first.

    Raises:
        OutsideError: The table is not below the root, or has a link in it.
        UnreadableTableError: The version's changes are not stored, or cannot be read.
    """
    path, _, version = named.rpartition(_MARK)
    number = int(version)
    found = [_envelope(row) for row in _changes(_open(path, storage, root), path, number)]
    found.sort(key=lambda one: (one["op"] != "d", json.dumps(one, sort_keys=True)))
    return [
        # No arrival time of a table's row is the same at a second read, so `now` is the epoch.
        Arrived(place=RawRowPosition(offset=number, ordinal=ordinal), row=row, now_us=0)
        for ordinal, row in enumerate(found)
    ]


def render_version(
    renderer: RowRenderer, arrived: Sequence[Arrived]
) -> list[tuple[RecordCells, ...]]:
    """Render the changes of one version; a key with a row in the version gets no deletion."""
    rendered = renderer.render(arrived)
    gone = [isinstance(one.row, dict) and one.row["op"] == "d" for one in arrived]
    stands = {
        key
        for is_gone, made in zip(gone, rendered, strict=True)
        for topic, key, _ in made
        if not is_gone and topic == renderer.output
    }
    return [
        made
        for is_gone, made in zip(gone, rendered, strict=True)
        if not (is_gone and made and made[0][0] == renderer.output and made[0][1] in stands)
    ]


def _open(path: str, storage: Mapping[str, str], root: Path) -> DeltaTable:
    # The library resolves all names in the log below the table, but would follow links.
    if "://" not in path:
        _require_no_links(path, root)
    try:
        return DeltaTable(path, storage_options=dict(storage))
    except TableNotFoundError:
        raise UnreadableTableError(f"`{path}` is not a Delta table") from None
    except (DeltaError, OSError) as error:
        raise UnreadableTableError(f"`{path}`: {error}") from error


def _require_no_links(path: str, root: Path) -> None:
    try:
        require_no_links(root, os.path.relpath(path, root))
    except FileNotFoundError:
        raise UnreadableTableError(f"`{path}` is not a Delta table") from None


def _changes(table: DeltaTable, path: str, number: int) -> Sequence[Mapping[str, object]]:
    try:
        reader = table.load_cdf(starting_version=number, ending_version=number)
        rows: Sequence[Mapping[str, object]] = pa.table(reader).to_pylist()
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise UnreadableTableError(
            f"`{path}` has no change log of version {number}; "
            f"set `delta.enableChangeDataFeed` when you create the table: {error}"
        ) from error
    return rows


def _envelope(row: Mapping[str, object]) -> dict[str, Json]:
    at = row[_AT]
    if not isinstance(at, dt.datetime):
        raise UnreadableTableError(f"a change has the instant `{at!r}`")
    known = at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)
    is_gone = row[_TYPE] in _GONE
    content: dict[str, Json] = {n: plain(value) for n, value in row.items() if n not in _OWN}
    return {
        "op": "d" if is_gone else "c",
        "before": content if is_gone else None,
        "after": None if is_gone else content,
        "ts_ms": int(known.timestamp() * 1000),
    }
