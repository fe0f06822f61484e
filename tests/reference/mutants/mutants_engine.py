"""Bugs of the engine of unit tests: operators, joins, windows, corrections, ties, row ids."""

from narthex._ir import window_spans
from narthex._runtime.steps import (
    contributions,
    joins,
    plain_groups,
    reshaping,
    row_steps,
    rows,
    timelines,
    windowed_groups,
)
from narthex_reference.inprocess import engine
from tests.reference.mutants.edits import Mutant, edited

# ruff: noqa: SLF001 (a bug goes where the meaning is)

STORED = [
    Mutant(
        "a row is visible only after its instant",
        edited(timelines.Timeline.floor, "(self.times, instant)", "(self.times, instant - 1)"),
        "a key is its newest row",
    ),
    Mutant(
        "a row is valid a microsecond into the next",
        edited(timelines.Timeline.lives, "self.times[at + 1]", "self.times[at + 1] + 1"),
        "changelog",
    ),
    Mutant(
        "a timeline is in the order of arrival",
        edited(timelines.timeline_of, "sorted(events)", "events"),
        "a key is its newest row",
    ),
    Mutant(
        "deletes are forgotten",
        edited(timelines.Timelines.__init__, "in rows.gone", "in ()"),
        "a delete makes a key absent",
    ),
    Mutant(
        "the lowest version counts",
        edited(
            engine.InProcessEngine.append,
            "known.version < fact.version",
            "known.version > fact.version",
        ),
        "the highest version",
    ),
    Mutant(
        "the last to arrive counts",
        edited(
            engine.InProcessEngine.append, "known is None or known.version < fact.version", "True"
        ),
        "the highest version",
    ),
    Mutant(
        "ties go by arrival",
        edited(rows.RowBatch.order, "(self.times[at], self.ids[at])", "self.times[at]"),
        "in the source",
    ),
    Mutant(
        "rows of one instant are listed as they came",
        edited(rows.facts_of, "(fact.event_time, fact.row_id)", "fact.event_time"),
        "a keyless dataset has every row",
    ),
    Mutant(
        "an absence is emitted repeatedly",
        edited(rows._telling, "living.discard(key)", "pass"),
        "absent",
    ),
]
ROW_STEPS = [
    Mutant(
        "a keyed row that stops passing lingers",
        edited(row_steps.kept, "if at not in staying", "if at in ()"),
        "stops passing a filter becomes absent",
    ),
    Mutant(
        "dropnull needs all to be null",
        edited(row_steps._without_null, "all(", "any("),
        "dropnull",
    ),
    Mutant(
        "a row without its value passes",
        edited(row_steps._assigned, "any(None in fresh[name] for name in required)", "False"),
        "undefined expression in a required column",
    ),
]
JOINS = [
    Mutant(
        "a right row of the same instant does not match",
        edited(joins._rows_joined, "floor(time + high)", "floor(time + high - 1)"),
        "a left join",
    ),
    Mutant(
        "right rows of later do not match",
        edited(joins._rows_joined, "floor(time + high)", "floor(time)"),
        "within a high bound",
    ),
    Mutant(
        "the lower bound is exclusive",
        edited(joins._rows_joined, "time - low <= found[0]", "time - low < found[0]"),
        "within a bound",
    ),
    Mutant(
        "an inner join is a left one",
        edited(joins._matched, "step.how is JoinHow.INNER", "False"),
        "an inner join",
    ),
    Mutant(
        "a keyed join sees the right side as it was before",
        edited(
            joins._changes,
            "bisect_right(right.times, begin + high)",
            "bisect_right(right.times, begin + high - 1)",
        ),
        "keyed join",
    ),
    Mutant(
        "a keyed join sees no right row of later",
        edited(
            joins._changes,
            "bisect_right(right.times, begin + high)",
            "bisect_right(right.times, begin)",
        ),
        "a keyed row within a high bound",
    ),
    Mutant(
        "a keyed join takes right rows of any age",
        edited(joins._changes, "begin - low <= right.times[following - 1]", "True"),
        "a keyed row within a bound",
    ),
    Mutant(
        "the lower bound of a keyed join is exclusive",
        edited(
            joins._changes,
            "begin - low <= right.times[following - 1]",
            "begin - low < right.times[following - 1]",
        ),
        "a keyed row within a bound",
    ),
    Mutant(
        "a left row that has ended still changes",
        edited(joins._changes, "right.times[at] >= end", "right.times[at] > end"),
        "keyed join",
    ),
    Mutant(
        "a keyed join forgets the deletes of its left side",
        edited(joins._keys_joined, "list(left.gone)", "[]"),
        "two keyed datasets",
    ),
    Mutant(
        "an inner keyed join lets a row linger",
        edited(
            joins._keys_joined,
            "gone.append(Absence(id=row_id, time=instant, cells=left.key_cells(place)))",
            "pass",
        ),
        "two keyed datasets",
    ),
]
RESHAPING = [
    Mutant(
        "an empty list explodes to nothing",
        edited(
            reshaping._elements,
            "isinstance(cell, tuple) and cell else",
            "isinstance(cell, tuple) else",
        ),
        "explode gives",
    ),
    Mutant(
        "the elements of a list share one row id",
        edited(reshaping.explode, 'row_id + number.to_bytes(4, "big")', "row_id"),
        "explode gives",
    ),
    Mutant(
        "both sides of a union share row ids",
        edited(reshaping.union, "side_id(row_id, side)", "row_id"),
        "a union has",
    ),
    Mutant(
        "the gap of a session is exclusive to dedup",
        edited(reshaping._last_of_same, "> gap", ">= gap"),
        "of rows in one session",
    ),
    Mutant(
        "dedup keeps the oldest of a window",
        edited(
            reshaping._last_of_same,
            "times[at] // duration * duration: at for at in places",
            "times[at] // duration * duration: at for at in reversed(places)",
        ),
        "in a tumbling window",
    ),
    Mutant(
        "dedup keeps the first of an instant",
        edited(
            reshaping._last_of_same,
            "{times[at]: at for at in places}",
            "{times[at]: at for at in reversed(places)}",
        ),
        "at an instant dedup",
    ),
    Mutant(
        "an update is an insert first",
        edited(reshaping.changelog, "bytes([inserts])", "bytes([not inserts])"),
        "changelog",
    ),
    Mutant(
        "deletes are flagged as inserts are",
        edited(reshaping.changelog, "inserts is (step.change is Change.INSERT)", "inserts"),
        "changelog",
    ),
    Mutant(
        "first is last",
        edited(reshaping.first, "oldest.setdefault(key, at)", "oldest[key] = at"),
        "first keeps",
    ),
    Mutant(
        "of several newest rows the first",
        edited(
            reshaping.latest,
            "for at, key in enumerate(keys)",
            "for at, key in reversed(list(enumerate(keys)))",
        ),
        "latest keeps",
    ),
]
GROUPS = [
    Mutant(
        "`along` is not looked at",
        edited(
            contributions.contributions,
            "rows.times if along is None else rows.column(along)",
            "rows.times",
        ),
        "along a column",
    ),
    Mutant(
        "the rows of a group are in the order of arrival",
        edited(contributions.contributions, "sorted(found)", "found"),
        "lists are by event time",
    ),
    Mutant(
        "old values are not taken back",
        edited(contributions._standing, "(begin, end))", "(begin, None))"),
        "takes its old values back",
    ),
    Mutant(
        "a value that is replaced counts at that instant still",
        edited(plain_groups._is_there, "as_of < until", "as_of <= until"),
        "takes its old values back",
    ),
    Mutant(
        "a group is found before its window has ended",
        edited(
            plain_groups.PlainGroups._answer,
            "oldest, known_until, asked_at",
            "oldest, asked_at, asked_at",
        ),
        "a discrete window shows",
    ),
    Mutant(
        "a window without a beginning counts rows beyond the history",
        edited(
            plain_groups.PlainGroups._answer,
            "spans(asked_at, oldest)",
            "spans(asked_at)",
        ),
        "an aggregate counts no row that is older",
    ),
    Mutant(
        "a group whose rows are too old is still found",
        edited(plain_groups.PlainGroups._changed_at, "if first < seen", "if seen"),
        "a group whose rows are all older",
    ),
    Mutant(
        "a row as old as the history is not found",
        edited(
            engine._Table.answer,
            "answer[0] < self._bound",
            "answer[0] <= self._bound",
        ),
        "a lookup finds no row that is older",
    ),
    Mutant(
        "a history ends at the lookup's instant long after all rows",
        edited(engine._Bound.oldest, "as_of, watermark)", "as_of, as_of)"),
        "old rows are found long after",
    ),
    Mutant(
        "a history ends at the watermark for lookups before it",
        edited(engine._Bound.oldest, "as_of, watermark)", "watermark or as_of, watermark)"),
        "a row of the future does not hide",
    ),
    Mutant(
        "the watermark is the newest row, whatever the disorder",
        edited(engine._Bound.oldest, "self.newest - self.disorder_us", "self.newest"),
        "old rows are found long after",
    ),
    Mutant(
        "an aggregate has no watermark",
        edited(engine._Folded.__init__, "bound.including(groups.newest)", "bound"),
        "counts the rows of the history before the watermark long after",
    ),
    Mutant(
        "rows never leave a window that is followed",
        edited(
            plain_groups.PlainGroups._state,
            "known.state is None or known.begin != begin or known.end > end",
            "known.state is None",
        ),
        "has a version at each end",
    ),
    Mutant(
        "a sum decays through its lookback",
        edited(plain_groups.PlainGroups._answer, "asked_at - lookback_of(slot.window)", "asked_at"),
        "with a lookback a sum has decayed",
    ),
    Mutant(
        "a version is emitted without a change",
        edited(plain_groups.PlainGroups._versions, "if shown != before", "if True"),
        "has a version at each end",
    ),
    Mutant(
        "a tumbling window is entered before its lookback",
        edited(
            window_spans.counted_during,
            "length + window.lookback",
            "length",
        ),
        "lookback",
    ),
    Mutant(
        "a tumbling window is never left",
        edited(
            window_spans.counted_during,
            "oldest * stride + closed, after * stride + closed",
            "oldest * stride + closed, None",
        ),
        "has a version at each end",
    ),
]
SPANS = [
    Mutant(
        "a hopping span has its end too",
        edited(window_spans.spans_of, "// stride + 1\n", "// stride\n"),
        "a row lies in every hopping span",
    ),
    Mutant(
        "the gap of a session is exclusive to groups",
        edited(windowed_groups._sessions, "> gap", ">= gap"),
        "rows no more than the gap apart",
    ),
    Mutant(
        "a session that grew stays beside the longer one",
        edited(windowed_groups._session_versions, "yield _Version(instant, before, None)", "pass"),
        "a longer session replaces",
    ),
    Mutant(
        "a final session does not wait for its gap",
        edited(windowed_groups._session_versions, "_Version(end + gap,", "_Version(end,"),
        "with final values a session",
    ),
    Mutant(
        "a final span is emitted at once",
        edited(
            windowed_groups._versions, "_Version(span[1] + lookback, span", "_Version(span[0], span"
        ),
        "with final values a span",
    ),
    Mutant(
        "a final span does not wait for its lookback",
        edited(
            windowed_groups._versions, "_Version(span[1] + lookback, span", "_Version(span[1], span"
        ),
        "lookback",
    ),
    Mutant(
        "each instant of a span begins anew",
        edited(windowed_groups._running, "ready.merge_all([state, gathered])", "gathered"),
        "each span is a group",
    ),
    Mutant(
        "the sum of a span decays through its lookback",
        edited(windowed_groups.WindowedGroups.values, "asked_at - self._lookback", "asked_at"),
        "a sum has decayed",
    ),
]
MUTANTS = [*STORED, *ROW_STEPS, *JOINS, *RESHAPING, *GROUPS, *SPANS]
"""Each must be caught by the conformance cases, or on projects drawn by chance."""
