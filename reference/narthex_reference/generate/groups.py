"""Groups and what is made of them: every aggregate, every window."""

from collections.abc import Sequence

from hypothesis import strategies as st

from narthex._ir import (
    Aggregate,
    AggregateSpec,
    Average,
    Continuous,
    Count,
    DataType,
    Datetime,
    Distinct,
    Emit,
    ExpDecaySum,
    FirstK,
    Hopping,
    LastK,
    Max,
    Min,
    Misfit,
    NodeSchema,
    Operator,
    Optional,
    Quantile,
    Session,
    Stddev,
    Sum,
    Tumbling,
    Window,
    is_hashable,
    is_key,
    type_aggregate,
)
from narthex_reference.generate.cells import SECOND

CONTINUOUS: tuple[Window, ...] = (
    Continuous("forever"),
    Continuous(10 * SECOND),
    Continuous(3 * SECOND),
)
DISCRETE: tuple[Window, ...] = (
    Tumbling(10 * SECOND),
    Tumbling(4 * SECOND),
    Hopping(10 * SECOND, 5 * SECOND),
    Hopping(15 * SECOND, 10 * SECOND),
    Hopping("forever", 10 * SECOND),
)
BACK: tuple[Window, ...] = (
    Tumbling(10 * SECOND, 3 * SECOND),
    Hopping(10 * SECOND, 5 * SECOND, 3 * SECOND),
    Hopping("forever", 10 * SECOND, 3 * SECOND),
)
OF_GROUPS: tuple[Tumbling | Hopping | Session, ...] = (
    Tumbling(10 * SECOND),
    Hopping(10 * SECOND, 5 * SECOND, 2 * SECOND),
    Session(5 * SECOND),
)


@st.composite
def group_keys(draw: st.DrawFn, schema: NodeSchema) -> tuple[str, ...]:
    """Return columns to group by; empty if no column can be a key."""
    names = [name for name, of in schema.columns.items() if is_key(of) and name != schema.timestamp]
    chosen = draw(st.sets(st.sampled_from(names), min_size=1, max_size=2)) if names else set()
    return tuple(name for name in names if name in chosen)


@st.composite
def aggregates(
    draw: st.DrawFn, last: Operator, schema: NodeSchema, *, prefix: str
) -> Operator | None:
    """Return an aggregate of a step; None where there is nothing to group by."""
    by = draw(group_keys(schema))
    if not by:
        return None
    window = draw(st.sampled_from([None, None, *OF_GROUPS])) if not schema.keys else None
    along = None
    emit = draw(st.sampled_from(list(Emit)))
    if window is None and emit is Emit.EAGER:
        instants = [c.name for c in schema.values if c.type == Datetime()]
        along = draw(st.sampled_from([None, None, *instants]))
    windows: Sequence[Window] = [window] if window else draw(_windows(schema, along))
    specs = draw(_specs(schema, windows, prefix=prefix, final=emit is Emit.FINAL))
    return Aggregate(last, by, specs, along=along, emit=emit, window=window)


def _windows(schema: NodeSchema, along: str | None) -> st.SearchStrategy[Sequence[Window]]:
    if not schema.keys or along is not None:
        return st.sampled_from([CONTINUOUS, DISCRETE, BACK])
    return st.sampled_from([CONTINUOUS, (Hopping("forever", 10 * SECOND),)])


@st.composite
def _specs(
    draw: st.DrawFn, schema: NodeSchema, windows: Sequence[Window], *, prefix: str, final: bool
) -> tuple[AggregateSpec, ...]:
    specs: list[AggregateSpec] = []
    for at in range(draw(st.integers(1, 3))):
        window = draw(st.sampled_from(windows))
        kinds: dict[str, list[AggregateSpec]] = {}
        for of in (*schema.values, *schema.keys):
            for spec in _fitting(of.name, of.type, window, f"{prefix}{at}", final=final):
                kinds.setdefault(type(spec).__name__, []).append(spec)
        specs.append(draw(st.sampled_from(kinds[draw(st.sampled_from(sorted(kinds)))])))
    return tuple(specs)


def _fitting(
    of: str, kind: DataType, window: Window, into: str, *, final: bool
) -> Sequence[AggregateSpec]:
    """Return the aggregates that can be made of a column."""
    optional = isinstance(kind, Optional)
    every: list[AggregateSpec] = [
        Count(into=into, window=window),
        Count(into=into, window=window, of=of, dropnull=optional),
        Count(into=into, window=window, of=of, unique=True, approx=True, dropnull=optional),
        Sum(into=into, window=window, of=of),
        Average(into=into, window=window, of=of),
        Average(into=into, window=window, of=of, default=None),
        Min(into=into, window=window, of=of),
        Max(into=into, window=window, of=of, default=7),
        Stddev(into=into, window=window, of=of),
        LastK(into=into, window=window, of=of, limit=2, dedup=False, dropnull=optional),
        LastK(into=into, window=window, of=of, limit=2, dedup=is_hashable(kind)),
        FirstK(into=into, window=window, of=of, limit=2, dedup=False, dropnull=optional),
        FirstK(into=into, window=window, of=of, limit=2, dedup=is_hashable(kind), dropnull=False),
        Distinct(into=into, window=window, of=of, unordered=True, dropnull=optional),
        Quantile(into=into, window=window, of=of, p=0.5, approx=True),
        Quantile(into=into, window=window, of=of, p=0.9, default=-1.0, approx=True),
    ]
    if not final:
        every.append(ExpDecaySum(into=into, window=window, of=of, half_life_us=7 * SECOND))
    return [spec for spec in every if not isinstance(type_aggregate(spec, kind), Misfit)]
