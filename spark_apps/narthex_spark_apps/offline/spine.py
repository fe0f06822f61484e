"""The rows of an offline query, in groups that one execution of the read plan can answer."""

from collections.abc import Mapping

import attrs
import polars as pl
import pyarrow.parquet as pq

from narthex._columnar_query import cells_of, raw_series
from narthex._ir import Cell, Datetime
from narthex._query import ReadPlan
from narthex_spark_apps.offline.offline_request import OfflineQuery
from narthex_spark_apps.offline.pins import LimitsOf, PinnedQuery


@attrs.frozen(kw_only=True)
class SpineRows:
    """The rows of an offline query.

    Attributes:
        frame: The inputs, encoded as in `narthex._expr.polars`.
        as_of: The instant of each row, microseconds.
        offsets: The log offsets that each row names, as JSON text; empty for none.
    """

    frame: pl.DataFrame
    as_of: pl.Series
    offsets: tuple[str, ...]

    @classmethod
    def load(cls, query: OfflineQuery, plan: ReadPlan) -> "SpineRows":
        """Read the spine of a query.

        Raises:
            MistypedError: A value is not of the type of its feature, or not an instant.
        """
        table = pq.read_table(query.spine)
        named = query.offsets_column
        return cls(
            frame=pl.DataFrame(
                [raw_series(name, table.column(name), plan.types[name]) for name in query.inputs]
            ),
            as_of=raw_series("as_of", table.column(query.timestamp_column), Datetime()),
            offsets=tuple(str(text or "") for text in table.column(named).to_pylist())
            if named
            else ("",) * table.num_rows,
        )

    def cells(self, plan: ReadPlan) -> dict[str, list[Cell]]:
        """Return the inputs as cells."""
        return {name: cells_of(self.frame[name], plan.types[name]) for name in self.frame.columns}


@attrs.frozen
class SpineGroup:
    """Rows of the spine that are answered together, with the offsets of each instant."""

    limits: Mapping[int, LimitsOf]
    rows: tuple[int, ...]

    def at(self, instant: int) -> LimitsOf:
        """Return the offsets of an instant; for an unknown instant, those that all instants share.

        Raises:
            ManyOffsetsError: The instant is not in the group, and the group has several offsets.
        """
        found = self.limits.get(instant)
        if found is None and len(set(map(id, self.limits.values()))) == 1:
            found = next(iter(self.limits.values()))
        if found is None:
            raise ManyOffsetsError
        return found


class ManyOffsetsError(Exception):
    """Rows at different log offsets cannot be answered together."""


@attrs.frozen(kw_only=True)
class Spine:
    """The rows of an offline query as cells, in groups.

    In a group, the rows of an instant have the same offsets.
    """

    columns: dict[str, list[Cell]]
    as_of: list[int]
    groups: tuple[SpineGroup, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.as_of)

    @classmethod
    def of(cls, rows: SpineRows, pinned: PinnedQuery, plan: ReadPlan) -> "Spine":
        """SpineGroup the rows of a query by the offsets at which they are answered."""
        as_of: list[int] = rows.as_of.to_list()
        seen: dict[int, list[str]] = {}
        members: dict[int, list[int]] = {}
        for row, (instant, text) in enumerate(zip(as_of, rows.offsets, strict=True)):
            of_instant = seen.setdefault(instant, [])
            if text not in of_instant:
                of_instant.append(text)
            members.setdefault(of_instant.index(text), []).append(row)
        limits = pinned.limits
        groups = tuple(
            SpineGroup({as_of[row]: limits[rows.offsets[row]] for row in group}, tuple(group))
            for group in members.values()
        )
        return cls(columns=rows.cells(plan), as_of=as_of, groups=groups)

    def apart(self, group: SpineGroup) -> tuple[SpineGroup, ...]:
        """Divide a group so that each part has one set of offsets."""
        parts: dict[int, list[int]] = {}
        for row in group.rows:
            parts.setdefault(id(group.limits[self.as_of[row]]), []).append(row)
        return tuple(
            SpineGroup(
                {self.as_of[row]: group.limits[self.as_of[row]] for row in rows}, tuple(rows)
            )
            for rows in parts.values()
        )
