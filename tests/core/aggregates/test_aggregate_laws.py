"""The laws of aggregates, stated one by one, of all of them."""

import typing
from collections.abc import Sequence

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._aggregates import Algebra, Order, State, algebra
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.facts import Cell
from narthex_reference.cell_equality import same
from tests.core.aggregates.aggregate_catalog import COLUMNS, FOREVER, SPECS, catalog, typed

Rows = Sequence[tuple[Order, Cell]]
ASKED = (20, 25, 3000)
some = settings(max_examples=25, deadline=None)


def _fitting(spec: AggregateSpec) -> list[str]:
    return [name for name in COLUMNS if typed(spec, name, into="x", window=FOREVER) is not None]


@st.composite
def _cases(draw: st.DrawFn, spec: AggregateSpec) -> tuple[Algebra, list[tuple[Order, Cell]]]:
    column = draw(st.sampled_from(_fitting(spec)))
    asked = typed(spec, column, into="x", window=FOREVER)
    assert asked is not None
    cells = draw(st.lists(st.tuples(st.integers(0, 20), COLUMNS[column][1]), max_size=9))
    return algebra(asked), [((at, bytes([n])), cell) for n, (at, cell) in enumerate(cells)]


def _gathered(found: Algebra, rows: Rows) -> State:
    return found.gather([cell for _, cell in rows], [order for order, _ in rows])


def _are_one(found: Algebra, left: State, right: State) -> bool:
    return all(same(found.finish(left, at), found.finish(right, at)) for at in ASKED)


def _parts(data: st.DataObject, rows: Rows) -> tuple[Rows, Rows, Rows]:
    places = [data.draw(st.integers(0, 2)) for _ in rows]
    of = [[row for row, at in zip(rows, places, strict=True) if at == part] for part in range(3)]
    return of[0], of[1], of[2]


def test_the_catalog_has_every_aggregate_and_varies_every_parameter() -> None:
    for kind in typing.get_args(AggregateSpec):
        asked = [spec for spec in SPECS if isinstance(spec, kind)]
        assert asked, kind
        for field in attrs.fields(kind):
            if field.name not in {"into", "window", "of"}:
                assert len({getattr(spec, field.name) for spec in asked}) > 1, (kind, field.name)
    inputs = {type(one.input) for one in catalog(FOREVER)}
    assert {type(of) for of, _ in COLUMNS.values()} <= inputs


@pytest.mark.parametrize("spec", SPECS, ids=str)
@some
@given(data=st.data())
def test_aggregates_obey_their_laws(spec: AggregateSpec, data: st.DataObject) -> None:
    found, rows = data.draw(_cases(spec))
    first, second, third = (_gathered(found, part) for part in _parts(data, rows))
    whole = _gathered(found, rows)
    before = msgspec.msgpack.encode((first, second, third))

    assert _are_one(found, found.merge(found.identity(), first), first)
    assert _are_one(found, found.merge(first, found.identity()), first)
    assert _are_one(found, found.merge(first, second), found.merge(second, first))
    left = found.merge(found.merge(first, second), third)
    assert _are_one(found, left, found.merge(first, found.merge(second, third)))
    assert _are_one(found, left, whole)
    assert msgspec.msgpack.encode((first, second, third)) == before


@pytest.mark.parametrize("spec", SPECS, ids=str)
@some
@given(data=st.data())
def test_to_gather_is_to_add_row_by_row_in_any_order(
    spec: AggregateSpec, data: st.DataObject
) -> None:
    found, rows = data.draw(_cases(spec))
    added = found.identity()

    for order, cell in data.draw(st.permutations(rows)):
        alone = _gathered(found, [(order, cell)])
        more = found.add(added, order, cell)
        assert _are_one(found, more, found.merge(added, alone))
        added = more

    assert _are_one(found, added, _gathered(found, rows))


@pytest.mark.parametrize("spec", SPECS, ids=str)
@some
@given(data=st.data())
def test_a_state_that_was_stored_is_the_state(spec: AggregateSpec, data: st.DataObject) -> None:
    found, rows = data.draw(_cases(spec))
    state = _gathered(found, rows)

    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(state))

    assert _are_one(found, stored, state)
    assert _are_one(found, found.merge(stored, found.identity()), state)
