"""The findings of a proof: where the platform differs from the definitions, and why."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._base import Json, render_instant
from narthex._formats import UnrenderedError, render_cell
from narthex._ir import Cell, DataType, RowId
from narthex_reference import same_cells

MOST_MADE = 20
"""The greatest number of facts shown per difference."""

_LEAST, _GREATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The range of instants that can be rendered as dates."""


ReadOffsets: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Dataset to topic to partition to the next offset."""


@attrs.frozen(kw_only=True)
class RepeatedAnswer:
    """A logged answer that differs when its query is repeated.

    Attributes:
        offsets: The offsets of the logs at which the query was answered, and is repeated.
        partition: The partition of its record in the log of logged queries.
        offset: The offset of its record there.
    """

    feature: str
    commit_id: str
    offsets: ReadOffsets
    partition: int
    offset: int

    def plain(self) -> dict[str, Json]:
        """Render it for JSON."""
        return {
            "feature": self.feature,
            "commit_id": self.commit_id,
            "logged_at": f"{self.partition}/{self.offset}",
            "offsets": {
                dataset: {topic: dict(ends) for topic, ends in topics.items()}
                for dataset, topics in self.offsets.items()
            },
        }

    def told(self) -> str:
        """Render it for people: its position in the log, and the offsets at which it was read."""
        read = ", ".join(
            f"{dataset} {partition}/{offset}"
            for dataset, topics in self.offsets.items()
            for ends in topics.values()
            for partition, offset in ends.items()
        )
        return f"logged as {self.partition}/{self.offset}, read below {read or 'no offsets'}"


@attrs.frozen(kw_only=True)
class EvidenceFact:
    """A fact that contributed to an expected value.

    Attributes:
        places: The positions of its states in the log: (partition, offset) each.
    """

    dataset: str
    event_time: int
    row_id: RowId
    places: tuple[tuple[int, int], ...]

    def plain(self) -> dict[str, Json]:
        """Render it for JSON."""
        return {
            "dataset": self.dataset,
            "event_time": told_instant(self.event_time),
            "row_id": self.row_id.hex(),
            "offsets": [f"{partition}/{offset}" for partition, offset in self.places],
        }

    def told(self) -> str:
        """Render it for people: the dataset, the event time, and its positions in the log."""
        offsets = ", ".join(f"{partition}/{offset}" for partition, offset in self.places)
        return f"{self.dataset} {offsets} at {told_instant(self.event_time)}"


@attrs.frozen(kw_only=True)
class ProofDifference:
    """One row, value or offset that differs from the definitions.

    Attributes:
        store: `log`, `index`, `history` or `answers`.
        what: The kind of entry that differs, in words.
        key: The key by name; None for a keyless row.
        instant: The event time of a row, or the instant of a lookup.
        found: The stored values by name; None without an entry.
        meant: The expected values by name; None if no entry should exist.
        made_of: The facts that explain the expected values.
        answer: The logged answer that differs; None in other stores.
    """

    dataset: str
    store: str
    what: str
    key: Mapping[str, Json] | None = None
    instant: int | None = None
    row_id: bytes | None = None
    found: Mapping[str, Json] | None
    meant: Mapping[str, Json] | None
    made_of: tuple[EvidenceFact, ...] = ()
    answer: RepeatedAnswer | None = None

    def plain(self) -> dict[str, Json]:
        """Render it for JSON."""
        return {
            "dataset": self.dataset,
            "store": self.store,
            "what": self.what,
            "key": None if self.key is None else dict(self.key),
            "instant": None if self.instant is None else told_instant(self.instant),
            "row_id": None if self.row_id is None else self.row_id.hex(),
            "found": None if self.found is None else dict(self.found),
            "meant": None if self.meant is None else dict(self.meant),
            "made_of": [one.plain() for one in self.made_of],
            "answer": None if self.answer is None else self.answer.plain(),
        }

    def told(self) -> str:
        """Render it for people, a line for each part."""
        at = "" if self.instant is None else f" at {told_instant(self.instant)}"
        key = "" if self.key is None else f" of {_pairs(self.key)}"
        lines = [f"{self.store} of `{self.dataset}`: {self.what}{key}{at}"]
        if self.row_id is not None:
            lines.append(f"  row    {self.row_id.hex()}")
        if self.answer is not None:
            lines.append(f"  answer {self.answer.told()}")
        lines.append(f"  found  {_pairs(self.found)}")
        lines.append(f"  means  {_pairs(self.meant)}")
        lines += [f"  made of {one.told()}" for one in self.made_of[:MOST_MADE]]
        if len(self.made_of) > MOST_MADE:
            lines.append(f"  and of {len(self.made_of) - MOST_MADE} more")
        return "\n".join(lines)


@attrs.frozen(kw_only=True)
class Unproved:
    """A store that could not be compared, and why."""

    dataset: str
    store: str
    why: str

    def plain(self) -> dict[str, Json]:
        """Render it for JSON."""
        return {"dataset": self.dataset, "store": self.store, "why": self.why}


@attrs.frozen(kw_only=True)
class Proof:
    """The result of a proof.

    Attributes:
        compared: The number of compared rows and answers, by dataset and store (`Orders.index`).
        more: The number of further differences of each store that are not listed.
        changed_answers: The number of logged queries that were right, but have changed since.
    """

    compared: Mapping[str, int]
    differences: tuple[ProofDifference, ...]
    unproved: tuple[Unproved, ...]
    more: Mapping[str, int]
    changed_answers: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether no comparison found a difference."""
        return not self.differences

    def plain(self) -> dict[str, Json]:
        """Render it for JSON."""
        return {
            "equal": self.is_equal,
            "compared": dict(self.compared),
            "differences": [difference.plain() for difference in self.differences],
            "more": dict(self.more),
            "unproved": [one.plain() for one in self.unproved],
            "changed_answers": self.changed_answers,
        }


def offset_ahead(
    dataset: str, store: str, partition: int, offset: int, end: int
) -> ProofDifference:
    """Return the difference of a store that has read beyond the log's end."""
    return ProofDifference(
        dataset=dataset,
        store=store,
        what=f"the offset of partition {partition}",
        found={"offset": offset},
        meant={"at most": end},
    )


def told_instant(instant: int) -> str:
    """Render an instant; one outside the calendar's range, as its microseconds."""
    return render_instant(instant) if _LEAST <= instant <= _GREATEST else f"{instant} us"


def named(
    names: Sequence[str], cells: Sequence[Cell], types: Mapping[str, DataType]
) -> dict[str, Json]:
    """Render cells by name; a cell that does not fit its type is shown unchanged."""
    found: dict[str, Json] = {}
    for name, cell in zip(names, cells, strict=True):
        of = types.get(name)
        try:
            found[name] = _plain(cell) if of is None else render_cell(cell, of)
        except UnrenderedError:
            found[name] = _plain(cell)
    return found


def _plain(cell: Cell) -> Json:
    match cell:
        case bytes():
            return cell.hex()
        case tuple():
            return [_plain(one) for one in cell]
        case dict():
            return {name: _plain(one) for name, one in cell.items()}
        case float() if cell != cell or cell in (float("inf"), float("-inf")):  # noqa: PLR0124
            return str(cell)
        case _:
            return cell


def same_named(left: Mapping[str, Cell], right: Mapping[str, Cell]) -> bool:
    """Whether two sets of named cells are the same."""
    return left.keys() == right.keys() and same_cells(
        tuple(left.values()), tuple(right[name] for name in left)
    )


def _pairs(given: Mapping[str, Json] | None) -> str:
    if given is None:
        return "nothing"
    return ", ".join(f"{name}={value!r}" for name, value in given.items())
