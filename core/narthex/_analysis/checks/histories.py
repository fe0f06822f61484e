"""The `history` of a dataset: how far back its lookups see."""

from collections.abc import Iterator

from narthex._base.times import render_duration
from narthex._ir.entities import Dataset
from narthex._ir.operators import Aggregate
from narthex._ir.window_spans import reach_of
from narthex._ir.windows import Session
from narthex.errors import DefinitionError, HistoryInvalid


def longest_reach(dataset: Dataset) -> int:
    """Return how far from a lookup's instant the windows of a dataset's aggregates begin.

    The result is 0 without such windows. A window without a beginning counts up to its end.
    """
    return max(
        (
            reach_of(spec.window)
            for pipeline in dataset.pipelines
            if isinstance(pipeline.terminal, Aggregate) and pipeline.terminal.window is None
            for spec in pipeline.terminal.specs
            if not isinstance(spec.window, Session)
        ),
        default=0,
    )


def history_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    """Yield the errors of a dataset's history; none if it has no history."""
    history_us = dataset.history_us
    if history_us is None:
        return
    if history_us <= 0:
        yield HistoryInvalid(
            f"the history of dataset `{dataset.name}` is not longer than zero",
            origin=dataset.origin,
            hint="write a duration such as `90d`, or leave `history` out to see all rows",
        )
    if dataset.index is None:
        yield HistoryInvalid(
            f"dataset `{dataset.name}` has a history but no index; `history` decides which rows "
            "lookups see",
            origin=dataset.origin,
            hint="set `index=True`, or leave `history` out",
        )
    reach = longest_reach(dataset)
    if 0 < history_us < reach:
        yield HistoryInvalid(
            f"the history of dataset `{dataset.name}` is {render_duration(history_us)}, but its "
            f"windows begin up to {render_duration(reach)} before a lookup's instant",
            origin=dataset.origin,
            hint=f'set `history="{render_duration(reach)}"` or a longer one',
        )
