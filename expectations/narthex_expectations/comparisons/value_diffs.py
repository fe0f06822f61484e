"""Diffs of values: which keys of a dataset have other values on another branch, and why.

Both sides are read from their histories, up to the offsets that these have when the diff begins, as
of one instant. So no index is read, and rows that arrive meanwhile change nothing.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import polars as pl

from narthex._base import Json, from_plain, render_instant
from narthex._formats import UnrenderedError, parse_cell
from narthex._ir import Cell, Column, DatasetPlan, HistorySpec, types
from narthex_expectations.comparisons.causes import Cause, Causes, Side, SideDataset, counted
from narthex_expectations.comparisons.differences import Key, Values, compare, examples, plain_key
from narthex_stores import (
    HASH,
    STATES,
    HistoryTable,
    LogRow,
    PinnedHistory,
    TooManyStatesError,
    has_keys,
    keys_frame,
    newest_rows,
    storage_options,
    values_as_of,
)

MOST_KEYS: Final = 10_000
"""The greatest number of keys that are compared."""

MOST_STATES: Final = 500_000
"""The greatest number of fact states of a side that are read for these keys."""

MOST_EXPLAINED: Final = 100
"""How many of the keys that differ are followed upstream."""

_ROW: Final = "#"
"""The number of a row among those at its event time, in datasets without keys."""


class NotComparableError(ValueError):
    """Two sides that cannot be compared, with the reason."""


@attrs.frozen(kw_only=True)
class Question:
    """The question of a diff.

    Attributes:
        sides: The dataset and all that it is made from, on both sides.
        share: The share of keys to compare; as many as are allowed if it is None.
        keys: The keys to compare instead, as JSON objects.
        at: The instant, microseconds; by default the newest up to which both sides have rows.
        now: The present.
    """

    dataset: str
    sides: tuple[Side, Side]
    now: int
    share: float | None = None
    keys: tuple[Mapping[str, Json], ...] | None = None
    at: int | None = None


@attrs.frozen(kw_only=True)
class ComparedDataset:
    """The answer of a diff.

    Attributes:
        result: Counts and causes, without any value of a row.
        examples: Some differing values with their keys.
    """

    result: dict[str, Json]
    examples: list[dict[str, Json]]


def diff(question: Question) -> ComparedDataset:
    """Compare a dataset on two sides.

    Raises:
        NotComparableError: The keys of both sides have other names or types, or a given key does
            not have them, or there are too many states of the given keys.
        FileNotFoundError: A history does not exist.
        StoreError: The store did not answer.
    """
    first, second = (side[question.dataset] for side in question.sides)
    _require_comparable(first.plan, second.plan)
    opened = Histories()
    histories = (opened(first), opened(second))
    newest = tuple(one.newest_row() for one in histories)
    as_of = _instant(question, newest)
    keys, share = _keys(question, histories)
    values = [
        _values(one.plan, history, keys, as_of=as_of, newest=until)
        for one, history, until in zip((first, second), histories, newest, strict=True)
    ]
    found = compare(*values, types_of=(_types(first.plan), _types(second.plan)))
    explained = found.keys[:MOST_EXPLAINED]
    causes = Causes(sides=question.sides, as_of=as_of, opened=opened).of(
        question.dataset, [key[: len(first.plan.log.keys) or 1] for key in explained]
    )
    result: dict[str, Json] = {
        "dataset": question.dataset,
        "as_of": render_instant(as_of),
        "share": share,
        "same_history": first.asset_id == second.asset_id,
        "versions": [first.plan.version, second.plan.version],
        "offsets": [_plain_offsets(one) for one in histories],
        **found.to_json(),
        "explained": len(explained),
        "causes": counted(causes, lambda name: _versions(question, name)),
    }
    shown = examples(found, *values, keys=_key_columns(first.plan))
    return ComparedDataset(
        result=result, examples=with_causes(shown, explained, causes, _key_columns(first.plan))
    )


def with_causes(
    shown: Sequence[Mapping[str, Json]],
    keys: Sequence[Key],
    causes: Sequence[Cause],
    columns: Sequence[Column],
) -> list[dict[str, Json]]:
    """Add to each example what is the first to differ, if its key was followed."""
    by_key = {
        repr(plain_key(key, columns)): cause.dataset
        for key, cause in zip(keys, causes, strict=True)
    }
    return [{**one, "cause": by_key.get(repr(one["key"]))} for one in shown]


@attrs.frozen
class Histories:
    """The histories of a diff, each pinned once."""

    _open: dict[str, PinnedHistory] = attrs.field(factory=dict)
    _newest: dict[str, int | None] = attrs.field(factory=dict)

    def __call__(self, dataset: SideDataset) -> PinnedHistory:
        known = self._open.get(dataset.history_path)
        if known is None:
            table = HistoryTable(
                dataset.history_path,
                HistorySpec(log=dataset.plan.log),
                storage=storage_options(os.environ),
            )
            known = self._open[dataset.history_path] = PinnedHistory.of(table)
        return known

    def newest_row(self, dataset: SideDataset) -> int | None:
        """Return the greatest event time of a row; None without one."""
        path = dataset.history_path
        if path not in self._newest:
            self._newest[path] = self(dataset).newest_row()
        return self._newest[path]


def _require_comparable(first: DatasetPlan, second: DatasetPlan) -> None:
    keys = [{column.name: column.type for column in plan.log.keys} for plan in (first, second)]
    if keys[0] != keys[1]:
        raise NotComparableError(
            f"`{first.name}` has the keys {', '.join(keys[0]) or 'none'} on one side and "
            f"{', '.join(keys[1]) or 'none'} on the other, so no key is on both"
        )


def _instant(question: Question, newest: Sequence[int | None]) -> int:
    if question.at is not None:
        return question.at
    known = [one for one in newest if one is not None]
    return min([*known, question.now])


def _keys(
    question: Question, histories: tuple[PinnedHistory, PinnedHistory]
) -> tuple[pl.DataFrame, float | None]:
    """Return the keys to compare, and about which share of all they are; None for given keys."""
    first = histories[0]
    if question.keys is not None:
        return _given(question, first), None
    states = max(one.snapshot.states for one in histories)
    share = min(question.share or 1.0, MOST_STATES / max(states, 1))
    found = [one.sampled_keys(share=share) for one in histories]
    names = [HASH, *first.key_names]
    # Keys without a row on a side are in the sample of the other one.
    sampled = pl.concat(found).group_by(names).agg(pl.col(STATES).max()).sort(names[0])
    kept = sampled.filter(
        (pl.col(STATES).cum_sum() <= MOST_STATES) & (pl.int_range(pl.len()) < MOST_KEYS)
    )
    if not kept.height and sampled.height:
        raise NotComparableError(f"one key of `{question.dataset}` has too many states")
    of_sampled = kept.height / sampled.height if sampled.height else 1.0
    return kept.select(first.key_names), share * of_sampled


def _given(question: Question, history: PinnedHistory) -> pl.DataFrame:
    columns = history.table.log.keys
    if not columns:
        raise NotComparableError(f"`{question.dataset}` has no keys, so none can be given")
    keys = question.keys or ()
    if len(keys) > MOST_KEYS:
        raise NotComparableError(f"{len(keys)} keys were given; {MOST_KEYS} are the most")
    cells = [_parsed(number, key, columns) for number, key in enumerate(keys)]
    return keys_frame({f"k_{one.name}": one.type for one in columns}, cells).unique()


def _parsed(number: int, key: Mapping[str, Json], columns: Sequence[Column]) -> tuple[Cell, ...]:
    if key.keys() != {column.name for column in columns}:
        names = ", ".join(column.name for column in columns)
        raise NotComparableError(f"key {number} has {', '.join(key) or 'nothing'}, not {names}")
    try:
        return tuple(parse_cell(key[column.name], column.type) for column in columns)
    except UnrenderedError as error:
        raise NotComparableError(f"key {number}: {error}") from None


def _key_columns(plan: DatasetPlan) -> tuple[Column, ...]:
    if plan.log.keys:
        return plan.log.keys
    return (Column(plan.log.time_field, types.Datetime()), Column(_ROW, types.Int()))


def _types(plan: DatasetPlan) -> dict[str, types.DataType]:
    columns = plan.schema.values if plan.log.keys else plan.log.inputs
    return {column.name: column.type for column in columns}


def _values(
    plan: DatasetPlan,
    history: PinnedHistory,
    keys: pl.DataFrame,
    *,
    as_of: int,
    newest: int | None,
) -> Values:
    """Return the values of the keys that have a row as of the instant."""
    try:
        states = history.rows_of(keys, most=2 * MOST_STATES)
    except TooManyStatesError as error:
        raise NotComparableError(f"`{plan.name}`: {error}") from None
    if not has_keys(history):
        return _rows(plan, newest_rows(states, as_of=as_of))
    wanted = _asked(keys, {state.fact.key for state in states}, history)
    found = values_as_of(plan.index, states, wanted, as_of=as_of, newest=newest)
    names = [column.name for column in plan.schema.values]
    return {
        key: dict(zip(names, one.values, strict=True))
        for key, one in zip(wanted, found, strict=True)
        if one is not None
    }


def _asked(keys: pl.DataFrame, found: Iterable[Key], history: PinnedHistory) -> list[Key]:
    """Return those of the keys that are asked for: a row may have moved to another key."""
    known = sorted(found, key=repr)
    columns = {f"k_{one.name}": one.type for one in history.table.log.keys}
    numbered = keys_frame(columns, known).with_row_index("place")
    kept = numbered.join(keys, on=list(columns), how="semi")["place"]
    return [known[place] for place in kept.sort()]


def _rows(plan: DatasetPlan, rows: Sequence[LogRow]) -> Values:
    """Return rows without keys by their event time, and their number at that event time."""
    names = [column.name for column in plan.log.inputs]
    by_time: dict[int, list[tuple[Cell, ...]]] = {}
    for row in rows:
        by_time.setdefault(row.fact.event_time, []).append(row.fact.values[: len(names)])
    return {
        (at, number): dict(zip(names, values, strict=True))
        for at, together in by_time.items()
        for number, values in enumerate(sorted(together, key=repr))
    }


def _plain_offsets(history: PinnedHistory) -> Json:
    return {str(number): at for number, at in sorted(history.snapshot.offsets.items())}


def _versions(question: Question, name: str) -> tuple[int, int]:
    first, second = (side[name].plan.version for side in question.sides)
    return first, second


def question_of(asked: Mapping[str, Json]) -> Question:
    """Read a question that was rendered as JSON, with its sides as `side_of` reads them.

    Raises:
        ValueError: It is not a question.
    """
    match asked:
        case {"dataset": str(dataset), "sides": [dict(first), dict(second)], "now": int(now)}:
            keys, share, at = asked.get("keys"), asked.get("share"), asked.get("at")
            return Question(
                dataset=dataset,
                sides=(side_of(first), side_of(second)),
                now=now,
                share=float(share) if isinstance(share, int | float) else None,
                keys=tuple(one for one in keys if isinstance(one, dict))
                if isinstance(keys, list)
                else None,
                at=at if isinstance(at, int) else None,
            )
        case _:
            raise ValueError("the question of a diff lacks a part")


def side_of(plain: Mapping[str, Json]) -> Side:
    """Read the datasets of a side.

    Raises:
        ValueError: A dataset lacks a part.
    """
    return {name: _dataset_of(one) for name, one in plain.items()}


def _dataset_of(plain: Json) -> SideDataset:
    match plain:
        case {
            "plan": described,
            "history_path": str(path),
            "asset_id": int(asset_id),
            "reads": list(reads),
        } if isinstance(plan := from_plain(described), DatasetPlan):
            return SideDataset(
                plan=plan, history_path=path, asset_id=asset_id, reads=tuple(map(str, reads))
            )
        case _:
            raise ValueError("a dataset of a side lacks a part")
