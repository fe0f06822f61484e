"""The spans of time that a changed row affects: connected rows are in one span."""

import itertools
from collections.abc import Iterator, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_spark_apps.stateful.reach import Chain, Neighbours, Reach, Within, affected_spans

INSTANTS = st.lists(st.integers(-40, 40), unique=True, max_size=12).map(sorted)
GAP = 5


@attrs.frozen
class Rows:
    """The rows of a group at some instants."""

    instants: Sequence[int]

    def before(self, instant: int) -> Iterator[int]:
        return iter([one for one in reversed(self.instants) if one < instant])

    def after(self, instant: int) -> Iterator[int]:
        return iter([one for one in self.instants if one > instant])


def chains(instants: Sequence[int]) -> list[list[int]]:
    """Divide ascending instants wherever two are further apart than the gap."""
    found: list[list[int]] = []
    for instant in instants:
        if found and instant - found[-1][-1] <= GAP:
            found[-1].append(instant)
        else:
            found.append([instant])
    return found


@given(INSTANTS, INSTANTS.filter(bool))
def test_a_chain_is_whole_whichever_of_its_rows_has_changed(
    rows: list[int], changed: list[int]
) -> None:
    spans = affected_spans(Chain(GAP), changed, Rows(rows))

    connected = chains(sorted({*rows, *changed}))
    assert spans == [(c[0], c[-1]) for c in connected if {*c} & {*changed}]


@given(INSTANTS, INSTANTS.filter(bool))
def test_the_rows_next_to_a_changed_row_are_in_its_span(
    rows: list[int], changed: list[int]
) -> None:
    spans = affected_spans(Neighbours(), changed, Rows(rows))

    everything = sorted({*rows, *changed})
    for instant in changed:
        at = everything.index(instant)
        near = everything[max(at - 1, 0) : at + 2]
        assert any(first <= near[0] and near[-1] <= last for first, last in spans)


@pytest.mark.parametrize("reach", [Neighbours(), Chain(GAP), Within(GAP)])
@given(rows=INSTANTS, changed=INSTANTS.filter(bool))
def test_spans_are_ascending_disjoint_and_contain_what_has_changed(
    reach: Reach, rows: list[int], changed: list[int]
) -> None:
    spans = affected_spans(reach, changed, Rows(rows))

    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    assert all(any(first <= one <= last for first, last in spans) for one in changed)


def test_windows_that_contain_a_row_are_inside_its_span() -> None:
    assert affected_spans(Within(10), [100, 105, 130], Rows([])) == [(91, 114), (121, 139)]
