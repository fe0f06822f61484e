"""Datasets that sources fill, and their facts: late, early, corrected, deleted."""

import attrs
from hypothesis import strategies as st

from narthex._formats import key_bytes, keyed_row_id
from narthex._ir import (
    Cdc,
    Cell,
    Dataset,
    Datetime,
    Fact,
    Field,
    Index,
    Metadata,
    Role,
    RowId,
    Schema,
    Source,
    Version,
    WebhookEndpoint,
    position,
)
from narthex_reference.generate.cells import KEY_TYPES, SECOND, VALUE_TYPES, cells, instants

TIMESTAMP = "at"
OWNED = Metadata(owner="generated@narthex.dev")


@st.composite
def source_datasets(draw: st.DrawFn, *, number: int, keyed: bool) -> Dataset:
    """Return a dataset; its columns have names that no other dataset's columns have."""
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2)) if keyed else []
    values = draw(st.lists(st.sampled_from(VALUE_TYPES), min_size=1, max_size=4))
    fields = [Field(name=f"s{number}k{at}", type=of, role=Role.KEY) for at, of in enumerate(keys)]
    fields += [Field(name=f"s{number}v{at}", type=of) for at, of in enumerate(values)]
    fields.append(Field(name=TIMESTAMP, type=Datetime(), role=Role.TIMESTAMP))
    disorder_us = draw(st.sampled_from([0, 0, 2 * SECOND]))
    source = Source(
        connector=WebhookEndpoint(webhook="generated", endpoint=f"S{number}"),
        disorder_us=disorder_us,
        cdc=Cdc.UPSERT if keyed else Cdc.APPEND,
    )
    return Dataset(
        name=f"S{number}",
        version=1,
        schema=Schema(tuple(fields)),
        index=Index(online=True, offline=True) if keyed else None,
        sources=(source,),
        metadata=OWNED,
    )


@attrs.frozen
class _Drawn:
    """The drawn numbers of one fact; they decide about repeated keys and deletes."""

    key: tuple[Cell, ...]
    values: tuple[Cell, ...]
    event_time: int
    again: int
    gone: int


def facts_of(dataset: Dataset) -> st.SearchStrategy[tuple[Fact, ...]]:
    """Return facts of a dataset, in the order of their positions."""
    drawn = st.builds(
        _Drawn,
        st.tuples(*(cells(column.type) for column in dataset.schema.keys)),
        st.tuples(*(cells(column.type) for column in dataset.schema.values)),
        instants(),
        st.integers(0, 19),
        st.integers(0, 4),
    )
    return st.lists(drawn, max_size=10).map(lambda found: _facts(dataset, found))


def _facts(dataset: Dataset, drawn: list[_Drawn]) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    for offset, one in enumerate(drawn):
        place = position(f"generated/{dataset.name}", offset % 2, offset)
        if not dataset.schema.keys:
            facts.append(_appended(one, place))
            continue
        # One in four is of a key that was there before; some of those are of its instant, too.
        earlier = facts[one.again % len(facts)] if facts and one.again % 4 == 3 else None  # noqa: PLR2004
        facts.append(_keyed(dataset, one, place, earlier))
    return tuple(facts)


def _keyed(dataset: Dataset, one: _Drawn, place: bytes, earlier: Fact | None) -> Fact:
    key = one.key if earlier is None else earlier.key
    event_time = one.event_time
    if earlier is not None and one.again % 8 == 7:  # noqa: PLR2004 (it corrects that row)
        event_time = earlier.event_time
    gone = one.gone == 1
    return Fact(
        row_id=keyed_row_id(key_bytes(dataset.schema.keys, key), event_time),
        version=Version(place),
        event_time=event_time,
        key=key,
        values=tuple(None for _ in one.values) if gone else one.values,
        alive=not gone,
    )


def _appended(one: _Drawn, place: bytes) -> Fact:
    """Return a row without a key: no source sends such a row a second time with other values."""
    return Fact(
        row_id=RowId(place),
        version=Version(place),
        event_time=one.event_time,
        key=(),
        values=one.values,
    )
