"""The judges that catch bugs: the cases, random projects, and the laws of algebras and spans.

Each judge stops at the first sign, and returns it; None if all laws hold.
"""

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from narthex._aggregates import Algebra, Order, Sharing, State, algebra, span
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    TypedAggregate,
)
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Decimal, Float, Int, Optional, Str
from narthex._ir.window_spans import counted_during, newest_closed, sessions, spans_of
from narthex._ir.windows import Continuous, Hopping, Tumbling
from narthex_reference.comparing import differs
from narthex_reference.conformance import CASES, CaseFailed, check
from narthex_reference.engines import reference
from narthex_reference.generate import Project, projects
from narthex_reference.inprocess import engine_of
from narthex_reference.semantics.folds import fold

W = Continuous("forever")
LATER = 100
PROJECTS = 40


def case_failed(shows: str) -> str | None:
    """Answer the cases in the engine of unit tests, first those whose name has some words."""
    for one in sorted(CASES, key=lambda one: shows not in one.name):
        try:
            check(one, engine_of)
        except CaseFailed:
            return one.name
        except Exception as error:  # noqa: BLE001 (a bug may also break)
            return f"{one.name}: {type(error).__name__}"
    return None


@functools.cache
def drawn() -> tuple[Project, ...]:
    """Draw projects, always the same."""
    found: list[Project] = []

    @seed(7)
    @settings(
        max_examples=PROJECTS,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(projects())
    def draw(project: Project) -> None:
        found.append(project)

    draw()
    return tuple(found)


def project_failed() -> str | None:
    """Carry projects out in the engine of unit tests and in the reference."""
    for number, project in enumerate(drawn()):
        try:
            if differs(project, reference, engine_of) is not None:
                return f"project {number}"
        except Exception as error:  # noqa: BLE001 (a bug may also break)
            return f"project {number}: {type(error).__name__}"
    return None


_INTS = (3, None, 0, -5, 2**63 - 1, 2**62, 3, 1)
_SMALL = (4, None, 0, 9, 4, 1, 7)
_FLOATS = (1e16, None, 1.0, -1e16, 0.5)
_NEAR = (2.5, 1.0, None, 0.0, 7.25, 3.0)
_UNDEFINED = (2.0, math.nan, 1.0, 3.0)
_TEXTS = ("a", None, "b", "a", "c", "c", None)
_NUMBERS: list[tuple[DataType, tuple[Cell, ...]]] = [
    (Optional(Int()), _INTS),
    (Optional(Decimal(2)), _SMALL),
    (Optional(Float()), _FLOATS),
    (Optional(Float()), _NEAR),
    (Float(), _UNDEFINED),
    (Optional(Int()), (None, 0, None)),
    (Int(), ()),
]
_OF_NUMBERS: list[AggregateSpec] = [
    Count(into="x", window=W, of="c", dropnull=True),
    Sum(into="x", window=W, of="c"),
    Average(into="x", window=W, of="c"),
    Stddev(into="x", window=W, of="c"),
    Min(into="x", window=W, of="c", default=5),
    Max(into="x", window=W, of="c"),
    Quantile(into="x", window=W, of="c", p=0.5),
    Quantile(into="x", window=W, of="c", p=0.3, approx=True),
    ExpDecaySum(into="x", window=W, of="c", half_life_us=7),
]
_OF_TEXTS: list[AggregateSpec] = [
    Count(into="x", window=W),
    Count(into="x", window=W, of="c", unique=True),
    Count(into="x", window=W, of="c", unique=True, approx=True),
    LastK(into="x", window=W, of="c", limit=3, dedup=False),
    LastK(into="x", window=W, of="c", limit=2, dedup=True),
    FirstK(into="x", window=W, of="c", limit=3, dedup=False, dropnull=False),
    FirstK(into="x", window=W, of="c", limit=2, dedup=True, dropnull=True),
    Distinct(into="x", window=W, of="c", unordered=True),
]
_AGGREGATED = [
    *((spec, of, cells) for of, cells in _NUMBERS for spec in _OF_NUMBERS),
    *((spec, Optional(Str()), _TEXTS) for spec in _OF_TEXTS),
]


def law_failed() -> str | None:
    """Cut and mix rows in many ways, and compare with the reference's folds; then spans."""
    try:
        for spec, of, cells in _AGGREGATED:
            rows = [((at // 2, bytes([at])), cell) for at, cell in enumerate(cells)]
            wanted = fold(spec, of, [(*order, cell) for order, cell in rows], LATER)
            found = algebra(TypedAggregate(spec, of, of))
            for state in _states(found, rows):
                if not _same(found.finish(state, LATER), wanted):
                    return f"{type(spec).__name__} of {of!r}"
        return _span_failed()
    except Exception as error:  # noqa: BLE001 (a bug may also break)
        return type(error).__name__


def _states(found: Algebra, rows: list[tuple[Order, Cell]]) -> Iterator[State]:
    """Yield the state of all rows, however they were cut."""
    yield _gathered(found, rows)
    for number in range(4):
        order = np.random.default_rng(number).permutation(len(rows))
        mixed = [rows[int(at)] for at in order]
        pieces = [_gathered(found, mixed[at :: number + 1]) for at in range(number + 1)]
        yield found.merge_all(pieces)
        left = found.identity()
        for piece in pieces:
            left = found.merge(left, piece)
        yield left
        each = found.each([cell for _, cell in mixed], [order for order, _ in mixed])
        yield from found.scatter(each, Sharing.of([0] * len(each)))
        if len(pieces) == 2:
            yield from found.merge_pairs(pieces[:1], pieces[1:])


def _gathered(found: Algebra, rows: Sequence[tuple[Order, Cell]]) -> State:
    return found.gather([cell for _, cell in rows], [order for order, _ in rows])


def _same(found: Cell, wanted: Cell) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        both_undefined = math.isnan(found) and math.isnan(wanted)
        return both_undefined or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted


_DISCRETE: list[Tumbling | Hopping] = [
    Tumbling(10),
    Tumbling(7, 3),
    Hopping(10, 5),
    Hopping(10, 4),
    Hopping(9, 4, 2),
]
_INSTANTS = range(-40, 41)


def _span_failed() -> str | None:
    """Compare the spans of windows with their definition, written out instant by instant."""
    if any(span(Continuous(6), at) != (at - 6, at) for at in _INSTANTS):
        return "a continuous window counts both its ends"
    if any(counted_during(Continuous(6), at) != (at, at + 7) for at in _INSTANTS):
        return "a row counts while a continuous window has it"
    for window in _DISCRETE:
        for at in _INSTANTS:
            if _of_question_failed(window, at) or _of_row_failed(window, at):
                return f"{window} at {at}"
    if sessions((1, 3, 6, 12, 15), 3) != ((1, 7), (12, 16)):
        return "the gap of a session is inclusive"
    return None


def _of_question_failed(window: Tumbling | Hopping, asked_at: int) -> bool:
    begin, end = _newest(window, asked_at)
    return newest_closed(window, asked_at) != (begin, end) or span(window, asked_at) != (
        begin,
        end - 1,
    )


def _of_row_failed(window: Tumbling | Hopping, event_time: int) -> bool:
    holding = tuple(one for one in _all_spans(window) if one[0] <= event_time < one[1])
    counts = [
        at
        for at in range(-100, 101)
        if _newest(window, at)[0] <= event_time < _newest(window, at)[1]
    ]
    return spans_of(window, event_time) != holding or counted_during(window, event_time) != (
        counts[0],
        counts[-1] + 1,
    )


@functools.cache
def _newest(window: Tumbling | Hopping, asked_at: int) -> tuple[int, int]:
    closed = [one for one in _all_spans(window) if one[1] <= asked_at - window.lookback]
    return closed[-1]


@functools.cache
def _all_spans(window: Tumbling | Hopping) -> tuple[tuple[int, int], ...]:
    stride = window.stride if isinstance(window, Hopping) else window.duration
    length = window.duration or 0
    return tuple((n * stride, n * stride + length) for n in range(-60, 60))
