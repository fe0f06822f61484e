"""A history up to the offsets that it has when it is opened, read by keys.

Keys are sampled by a hash of their cells, so histories whose keys have the same types give the same
keys, whatever else they contain.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import polars as pl
import pyarrow as pa

from narthex._formats.arrow import stored_array
from narthex._ir import TOMBSTONE_TIME, Cell, DataType, LogShape
from narthex_stores.facts.tables import LogRow, fact_schema, to_rows
from narthex_stores.history.table import HistorySnapshot, HistoryTable

HASH: Final = "hash"
STATES: Final = "states"

_HASHES: Final = 1 << 64
_TIME: Final = "event_time"
_ROW_ID: Final = "row_id"


class TooManyStatesError(ValueError):
    """More states than are read at once have one of some keys."""


@attrs.frozen(kw_only=True)
class PinnedHistory:
    """A history at the offsets that it contained when it was pinned.

    Attributes:
        snapshot: Its files, and the next offset of each partition.
    """

    table: HistoryTable
    snapshot: HistorySnapshot

    @classmethod
    def of(cls, table: HistoryTable) -> "PinnedHistory":
        """Pin a history at what it contains now.

        Raises:
            TransientError: The store did not answer.
        """
        return cls(table=table, snapshot=table.snapshot())

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns by which states are sampled: the keys, or the event time without keys."""
        return tuple(f"k_{column.name}" for column in self.table.log.keys) or (_TIME,)

    def newest_row(self, *, until: int = TOMBSTONE_TIME - 1) -> int | None:
        """Return the greatest event time of a state with a row, up to an instant; None without one.

        Args:
            until: The greatest event time that counts.
        """
        rows = self._scan().filter(pl.col("alive"), pl.col(_TIME) <= until)
        found = rows.select(pl.col(_TIME).max()).collect().item()
        return None if found is None else int(found)

    def sampled_keys(self, *, share: float) -> pl.DataFrame:
        """Return about this share of the keys: `key_names`, their `HASH`, and how many `STATES`.

        Args:
            share: More than 0; 1 for all keys.
        """
        names = list(self.key_names)
        hashed = self._scan().select(names)
        if _TIME in names:
            hashed = hashed.filter(pl.col(_TIME) < TOMBSTONE_TIME)
        hashed = hashed.with_columns(pl.struct(names).hash(seed=0).alias(HASH))
        if share < 1:
            hashed = hashed.filter(pl.col(HASH) < int(share * _HASHES))
        return hashed.group_by([HASH, *names]).agg(pl.len().alias(STATES)).collect()

    def rows_of(self, keys: pl.DataFrame, *, most: int) -> list[LogRow]:
        """Return all states of the rows that ever had one of these keys.

        So a row that has moved to another key is not taken for one that is still there.

        Args:
            keys: Columns of `key_names` or of values (`v_` and their names); nulls match nothing.
            most: The greatest number of states with one of the keys.

        Raises:
            TooManyStatesError: There are more.
        """
        ids = (
            self._scan()
            .select(_ROW_ID, *keys.columns)
            .join(keys.lazy().unique(), on=keys.columns, how="semi")
            .select(_ROW_ID)
            .collect()
            .to_series()
        )
        if len(ids) > most:
            raise TooManyStatesError(f"{len(ids)} states have one of the keys; {most} are read")
        if ids.is_empty():
            return []
        states = self.table.scan(row_ids=ids.unique().to_list(), offsets=self.snapshot.offsets)
        return to_rows(self.table.log, states)

    def _scan(self) -> pl.LazyFrame:
        files = list(self.snapshot.files)
        if not files:
            empty = pl.from_arrow(fact_schema(self.table.log).empty_table())
            return pl.DataFrame(empty).lazy()
        options = dict(self.snapshot.storage) or None
        return pl.scan_parquet(files, glob=False, storage_options=options)


def keys_frame(columns: Mapping[str, DataType], cells: Iterable[Sequence[Cell]]) -> pl.DataFrame:
    """Return keys as columns of the form in which histories store them.

    Args:
        columns: The stored names of the columns, with their types.
        cells: A sequence of cells for each key, in the order of the columns.
    """
    listed = list(zip(*cells, strict=True)) or [()] * len(columns)
    arrays = [
        stored_array(list(column), of) for column, of in zip(listed, columns.values(), strict=True)
    ]
    return pl.DataFrame(pl.from_arrow(pa.table(arrays, names=list(columns))))


def newest_rows(states: Iterable[LogRow], *, as_of: int) -> list[LogRow]:
    """Return the rows that stand: the newest state of each, unless it is over or later."""
    newest: dict[bytes, LogRow] = {}
    for state in states:
        known = newest.get(state.fact.row_id)
        if known is None or known.fact.version < state.fact.version:
            newest[state.fact.row_id] = state
    return [
        state for state in newest.values() if state.fact.alive and state.fact.event_time <= as_of
    ]


def has_keys(history: PinnedHistory) -> bool:
    """Return whether a history can be looked up by keys."""
    return history.table.log.shape is not LogShape.ROWS
