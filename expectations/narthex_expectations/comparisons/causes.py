"""Why values differ: the dataset nearest the sources whose rows differ for a key.

The lineage is walked upstream from a dataset. A key is followed into an input if the input has all
columns that select its rows so far, under the same names; or if the rows that were found have the
columns that are the keys of the input, as a join does. Where neither is the case, the input is
named as one that was not followed.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex._base import Json
from narthex._ir import Cell, DatasetPlan, DataType, inner, types
from narthex_stores import LogRow, PinnedHistory, TooManyStatesError, keys_frame, newest_rows

MOST_STEPS: Final = 20
"""How far upstream the lineage is walked."""

_TIME: Final = ""
"""The event time among the cells of a row: no column has an empty name."""

MOST_ROWS: Final = 200_000
"""How many states of a dataset are read to compare the rows of the keys that are explained."""

Place: TypeAlias = int
"""The number of a key among those that are explained."""

_Cells: TypeAlias = Mapping[str, Cell]
_Rows: TypeAlias = Mapping[Place, Sequence[_Cells]]


@attrs.frozen(kw_only=True)
class SideDataset:
    """A dataset of one side.

    Attributes:
        asset_id: The asset of its history, which sides share if their definitions are the same.
        reads: The datasets that its pipelines read.
    """

    plan: DatasetPlan
    history_path: str
    asset_id: int
    reads: tuple[str, ...]

    @property
    def columns(self) -> dict[str, DataType]:
        """The types of the columns of its rows, by their public names."""
        log = self.plan.log
        return {column.name: column.type for column in (*log.keys, *log.inputs)}

    def stored(self, column: str) -> str:
        """Return the name of a column in the history."""
        if column == _TIME:
            return "event_time"
        is_key = any(one.name == column for one in self.plan.log.keys)
        return f"k_{column}" if is_key else f"v_{column}"


Side: TypeAlias = Mapping[str, SideDataset]
"""A dataset and all that it is made from, by name."""


@attrs.frozen(kw_only=True)
class Cause:
    """Why the values of a key differ.

    Attributes:
        dataset: The dataset that is the first to differ.
        is_source: Whether no dataset feeds it, so that its sources gave other rows.
        not_followed: The inputs whose rows for the key are not known.
    """

    dataset: str
    is_source: bool
    not_followed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _Selection:
    """The rows of a dataset that belong to keys: those with these cells in these columns."""

    columns: Mapping[str, DataType]
    places: Mapping[tuple[Cell, ...], frozenset[Place]]

    def within(self, places: Iterable[Place]) -> "_Selection":
        """Return the selection of some of the keys."""
        kept = frozenset(places)
        return attrs.evolve(
            self, places={cells: of & kept for cells, of in self.places.items() if of & kept}
        )


@attrs.frozen(kw_only=True)
class Causes:
    """Finds the causes of differences between two sides, as of an instant.

    Attributes:
        opened: Returns the history of a dataset of a side.
    """

    sides: tuple[Side, Side]
    as_of: int
    opened: Callable[[SideDataset], PinnedHistory]

    def of(self, dataset: str, keys: Sequence[tuple[Cell, ...]]) -> list[Cause]:
        """Return the cause of each key of a dataset whose values differ.

        Args:
            dataset: The dataset.
            keys: The cells of its key columns, in their order; without keys, an event time each.
        """
        columns = _keys_of(self.sides[0][dataset]) or {_TIME: types.Datetime()}
        places: dict[tuple[Cell, ...], set[Place]] = {}
        for place, key in enumerate(keys):
            places.setdefault(key, set()).add(place)
        selection = _Selection(
            columns=columns, places={key: frozenset(of) for key, of in places.items()}
        )
        found = self._walk(dataset, selection, MOST_STEPS)
        return [found[place] for place in range(len(keys))]

    def _walk(self, name: str, selection: _Selection, steps: int) -> dict[Place, Cause]:
        """Return the cause of each selected key, all of which differ in this dataset."""
        reads = sorted({one for side in self.sides for one in side[name].reads})
        shared = [one for one in reads if all(one in side for side in self.sides)]
        followed = self._into(name, shared, selection) if steps else {}
        places = frozenset[Place]().union(*selection.places.values())
        found: dict[Place, Cause] = {}
        unknown = {one for one in shared if one not in followed and not self._is_shared(one)}
        for one, chosen in followed.items():
            remaining = places - found.keys()
            if remaining and not self._is_shared(one):
                try:
                    differing = self._differing(one, chosen.within(remaining))
                except TooManyStatesError:
                    unknown.add(one)
                    continue
                if differing:
                    found |= self._walk(one, chosen.within(differing), steps - 1)
        here = Cause(dataset=name, is_source=not reads, not_followed=tuple(sorted(unknown)))
        return {place: found.get(place, here) for place in places}

    def _is_shared(self, name: str) -> bool:
        first, second = (side[name].asset_id for side in self.sides)
        return first == second

    def _into(
        self, name: str, inputs: Sequence[str], selection: _Selection
    ) -> dict[str, _Selection]:
        """Return which rows of each input belong to the keys, as far as that is known."""
        chosen = {one: selection for one in inputs if self._has(one, selection.columns)}
        others = [one for one in inputs if one not in chosen and not self._is_shared(one)]
        if others:
            known = [*self._known({name: selection, **chosen})]
            for one in others:
                keys = _keys_of(self.sides[0][one])
                if keys and self._has(one, keys) and (joined := _joined(keys, known)):
                    chosen[one] = _Selection(columns=keys, places=joined)
        return chosen

    def _has(self, name: str, columns: Mapping[str, DataType]) -> bool:
        return all(
            column == _TIME or _is(side[name].columns.get(column), of)
            for side in self.sides
            for column, of in columns.items()
        )

    def _differing(self, name: str, selection: _Selection) -> list[Place]:
        """Return the keys whose rows of an input differ in the columns that both sides have."""
        first, second = (self._of_side(side, name, selection) for side in self.sides)
        common = [
            column
            for column in self.sides[0][name].columns
            if column in self.sides[1][name].columns
        ]
        return [
            place
            for place in sorted(first.keys() | second.keys())
            if _bag(first.get(place, ()), common) != _bag(second.get(place, ()), common)
        ]

    def _known(self, selections: Mapping[str, _Selection]) -> Iterator[_Rows]:
        for name, selection in selections.items():
            with contextlib.suppress(TooManyStatesError):
                yield self._both(name, selection)

    def _both(self, name: str, selection: _Selection) -> _Rows:
        together: dict[Place, list[_Cells]] = {}
        for side in self.sides:
            for place, rows in self._of_side(side, name, selection).items():
                together.setdefault(place, []).extend(rows)
        return together

    def _of_side(self, side: Side, name: str, selection: _Selection) -> _Rows:
        """Return the rows of a dataset that belong to the keys, as of the instant."""
        dataset = side[name]
        wanted = keys_frame(
            {dataset.stored(column): of for column, of in selection.columns.items()},
            selection.places,
        )
        rows: dict[Place, list[_Cells]] = {}
        for row in newest_rows(
            self.opened(dataset).rows_of(wanted, most=MOST_ROWS), as_of=self.as_of
        ):
            cells = _cells(dataset, row)
            for place in selection.places.get(
                tuple(cells[column] for column in selection.columns), ()
            ):
                rows.setdefault(place, []).append(cells)
        return rows


def _keys_of(dataset: SideDataset) -> dict[str, DataType]:
    return {column.name: inner(column.type) for column in dataset.plan.log.keys}


def _is(found: DataType | None, of: DataType) -> bool:
    return found is not None and inner(found) == of


def _cells(dataset: SideDataset, row: LogRow) -> dict[str, Cell]:
    log = dataset.plan.log
    named = zip((*log.keys, *log.values), row.fact.key + row.fact.values, strict=True)
    shown = {column.name for column in (*log.keys, *log.inputs)}
    return {column.name: cell for column, cell in named if column.name in shown} | {
        _TIME: row.fact.event_time
    }


def _bag(rows: Iterable[_Cells], columns: Iterable[str]) -> Counter[str]:
    """Return rows as a multiset; texts compare values that are not a number, too."""
    names = (_TIME, *columns)
    return Counter(repr([row[name] for name in names]) for row in rows)


def _joined(
    keys: Iterable[str], known: Iterable[_Rows]
) -> dict[tuple[Cell, ...], frozenset[Place]]:
    """Return the keys of an input that rows of the known datasets have as columns."""
    found: dict[tuple[Cell, ...], set[Place]] = {}
    for rows in known:
        for place, of_key in rows.items():
            for row in of_key:
                if all(row.get(key) is not None for key in keys):
                    found.setdefault(tuple(row[key] for key in keys), set()).add(place)
    return {cells: frozenset(places) for cells, places in found.items()}


def counted(causes: Iterable[Cause], versions: Callable[[str], tuple[int, int]]) -> list[Json]:
    """Render causes with the number of keys of each, the most frequent one first.

    Args:
        causes: The cause of each key.
        versions: Returns the versions of a dataset on both sides.
    """
    return [
        {
            "dataset": cause.dataset,
            "kind": "source" if cause.is_source else "definition",
            "keys": number,
            "versions": list(versions(cause.dataset)),
            "not_followed": list(cause.not_followed),
        }
        for cause, number in Counter(causes).most_common()
    ]
