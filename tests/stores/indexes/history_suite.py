"""The contract of an index with a history: what lookups see and what expires; to be inherited."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._ir.assets import IndexSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact
from narthex.errors import HistoryExpired
from narthex_stores.indexes import IndexFenced, LookupResult, WritableIndex
from tests.stores.indexes.index_suite import (
    KEYED,
    KEYS,
    LADDERS,
    WINDOWS,
    Delivery,
    at_home,
    contribution,
    contributions_spec,
    deliveries,
    examples,
    expected_fold,
    free_contributions,
    hot_contributions,
    keyed_rows,
    row,
    same,
    standing,
)

LATER = 1_000_000
"""A present time after all rows."""
DISORDER_US = 2

Expected = Callable[[str, int], LookupResult | None]


def with_history(spec: IndexSpec, history_us: int) -> IndexSpec:
    """Return the spec of the index of a dataset with a history."""
    return attrs.evolve(
        spec, history_us=history_us, disorder_us=DISORDER_US, expires=not spec.correctable
    )


def floor_of(facts: Sequence[Fact], user: str, as_of: int, oldest: int) -> LookupResult | None:
    """Return what a lookup of a keyed log must find, by definition."""
    known = [f for f in standing(facts) if f.key == (user,) and f.event_time <= as_of]
    newest = max(known, key=lambda fact: fact.event_time, default=None)
    if newest is None or not newest.alive or newest.event_time < oldest:
        return None
    return LookupResult(values=newest.values, event_time=newest.event_time)


def newest_row(facts: Sequence[Fact]) -> int | None:
    """Return the greatest event time of facts that are rows; None without one."""
    return max((fact.event_time for fact in facts if fact.alive), default=None)


class HistorySuite:
    """Inherit it and define how to open an empty index, which is closed after the block."""

    def opened(self, spec: IndexSpec) -> AbstractContextManager[WritableIndex]:
        raise NotImplementedError

    def oldest(self, spec: IndexSpec, facts: Sequence[Fact], as_of: int) -> int:
        """Return the event time before which a lookup sees no row, by definition."""
        is_appended = bool(spec.aggregates) and not spec.correctable
        rows = facts if is_appended else standing(facts)
        newest = newest_row(rows)
        watermark = as_of if newest is None else newest - DISORDER_US
        return min(as_of, watermark) - (spec.history_us or 0)

    @examples
    @given(
        deliveries(free_contributions) | deliveries(hot_contributions, most=60),
        st.sampled_from(LADDERS),
        st.sampled_from([40, 55]),
        st.booleans(),
        st.data(),
    )
    def test_lookups_of_aggregates_count_no_row_beyond_the_history(
        self,
        delivery: Delivery,
        ladder_us: tuple[int, ...],
        history_us: int,
        correctable: bool,
        data: st.DataObject,
    ) -> None:
        home = {(f.row_id, f.version): f for f in at_home(delivery.facts)}
        settled = Delivery(
            list(home.values()),
            [[home[f.row_id, f.version] for f in batch] for batch in delivery.batches],
        )
        spec = with_history(contributions_spec(ladder_us, correctable=correctable), history_us)

        def expected(user: str, at: int) -> LookupResult | None:
            oldest = self.oldest(spec, settled.facts, at)
            seen = [fact for fact in settled.facts if fact.event_time >= oldest]
            return expected_fold(seen, user, at, WINDOWS)

        with self.opened(spec) as index:
            self._check(index, settled, expected, data)

    @examples
    @given(deliveries(keyed_rows), st.sampled_from([1, 3, 6]), st.data())
    def test_lookups_of_rows_find_no_row_beyond_the_history(
        self, delivery: Delivery, history_us: int, data: st.DataObject
    ) -> None:
        def expected(user: str, at: int) -> LookupResult | None:
            return floor_of(delivery.facts, user, at, self.oldest(spec, delivery.facts, at))

        spec = with_history(IndexSpec(log=KEYED), history_us)
        with self.opened(spec) as index:
            self._check(index, delivery, expected, data)

    def _check(
        self, index: WritableIndex, delivery: Delivery, expected: Expected, data: st.DataObject
    ) -> None:
        """Expire at any pace between batches; each lookup is refused or has the right answer."""
        for batch in delivery.batches:
            index.apply(batch, offsets={}, epoch=1)
            most = data.draw(st.sampled_from([0, 1, 3, 1000]))
            index.expire(now_us=data.draw(st.sampled_from([20, LATER])), most=most, epoch=1)
        history_us = index.spec.history_us or 0
        times = [fact.event_time for fact in delivery.facts]
        moves = (DISORDER_US, history_us, history_us + 1, LATER)
        moments = times + [at + more for at in times for more in moves]
        asked = data.draw(st.lists(st.sampled_from(moments or [0]), min_size=1, max_size=6))
        with index.read() as reader:
            for at in asked:
                first = reader.answered_from
                if first is not None and at < first:
                    newest = newest_row(delivery.facts)
                    assert newest is not None
                    assert first == TOMBSTONE_TIME or at < newest - DISORDER_US - history_us
                    with pytest.raises(HistoryExpired):
                        reader.lookup([(KEYS[0],)], [at])
                    continue
                found = reader.lookup([(user,) for user in KEYS], [at] * len(KEYS))
                for user, answer in zip(KEYS, found, strict=True):
                    assert same(answer, expected(user, at)), (user, at)

    def test_lookups_are_refused_from_one_history_before_the_watermark(self) -> None:
        with self.opened(with_history(IndexSpec(log=KEYED), 10)) as index:
            index.apply([row("a", 97, b"\x00"), row("a", 102, b"\x00")], offsets={}, epoch=1)
            with index.read() as reader:
                assert reader.answered_from is None
            index.expire(now_us=LATER, most=1000, epoch=1)

            with index.read() as reader:
                assert reader.answered_from == 90
                assert reader.lookup([("a",), ("a",)], [90, 95])[0] is None
                with pytest.raises(HistoryExpired, match=r"1970-01-01T00:00:00\.000090"):
                    reader.lookup([("a",), ("a",)], [95, 89])

    def test_rows_of_the_last_history_are_found_long_after_the_newest_row(self) -> None:
        spec = with_history(IndexSpec(log=KEYED), 10)
        facts = [row(user, at, b"\x00") for user, at in (("a", 89), ("b", 90), ("c", 102))]
        with self.opened(spec) as index:
            index.apply(facts, offsets={}, epoch=1)
            index.expire(now_us=LATER, most=1000, epoch=1)
            with index.read() as reader:
                found = reader.lookup([("a",), ("b",), ("c",)], [LATER] * 3)

        assert [one is not None for one in found] == [False, True, True]

    def test_a_snapshot_has_the_watermark_of_its_rows(self) -> None:
        with self.opened(with_history(contributions_spec(()), 40)) as index:
            index.apply([contribution(b"0", 10)], offsets={}, epoch=1)
            with index.read() as reader:
                newest = reader.newest
            index.apply([contribution(b"1", 100)], offsets={}, epoch=1)
            with index.read() as reader:
                (found,) = reader.lookup([("a",)], [LATER])
                later = reader.newest

        assert (newest, later) == (10, 100)
        assert found is not None
        assert found.event_time == 100

    @pytest.mark.parametrize("more", [(), (row("b", 97, b"\x00"),)])
    def test_a_row_that_an_absence_replaced_is_not_the_newest(self, more: tuple[Fact, ...]) -> None:
        spec = with_history(IndexSpec(log=KEYED), 10)
        with self.opened(spec) as index:
            index.apply([row("a", 5, b"\x00"), row("a", 102, b"\x00")], offsets={}, epoch=1)
            index.apply([row("a", 102, b"\x01", alive=False), *more], offsets={}, epoch=1)
            with index.read() as reader:
                newest, (found,) = reader.newest, reader.lookup([("a",)], [90])

        assert newest == (97 if more else 5)
        assert (found is None) == bool(more)

    def test_rows_before_the_horizon_do_not_become_the_newest_again(self) -> None:
        with self.opened(with_history(IndexSpec(log=KEYED), 10)) as index:
            facts = [row(user, at, b"\x00") for at, user in enumerate("abcde")]
            index.apply([*facts, row("a", 102, b"\x00")], offsets={}, epoch=1)
            index.expire(now_us=LATER, most=1000, epoch=1)
            index.apply([row("a", 102, b"\x01", alive=False)], offsets={}, epoch=1)
            with index.read() as reader:
                assert reader.newest is None
                assert reader.answered_from == TOMBSTONE_TIME

    def test_an_index_without_a_history_has_no_newest_row(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            index.apply([row("a", 5, b"\x00")], offsets={}, epoch=1)
            with index.read() as reader:
                assert reader.newest is None

    def test_a_row_that_is_dated_in_the_future_makes_no_other_row_too_old(self) -> None:
        with self.opened(with_history(IndexSpec(log=KEYED), 10)) as index:
            index.apply([row("a", 95, b"\x00"), row("b", LATER, b"\x00")], offsets={}, epoch=1)
            index.expire(now_us=100, most=1000, epoch=1)

            with index.read() as reader:
                assert reader.answered_from == 90
                (found,) = reader.lookup([("a",)], [100])
        assert found is not None

    def test_the_horizon_never_goes_back(self) -> None:
        with self.opened(with_history(IndexSpec(log=KEYED), 10)) as index:
            index.apply([row("a", 97, b"\x00")], offsets={}, epoch=1)
            index.expire(now_us=LATER, most=1000, epoch=1)
            index.expire(now_us=50, most=1000, epoch=1)

            with index.read() as reader:
                assert reader.answered_from == 85

    def test_old_facts_that_arrive_again_expire_again(self) -> None:
        facts = [contribution(b"%d" % at, at) for at in range(0, 200, 2)]
        spec = with_history(contributions_spec((4, 12, 24)), 40)
        with self.opened(spec) as index:
            index.apply(facts, offsets={}, epoch=1)
            first = index.expire(now_us=LATER, most=10_000, epoch=1)
            with index.read() as reader:
                before = reader.lookup([("a",)] * 3, [160, 181, 300])
            index.apply(facts, offsets={}, epoch=1)
            again = index.expire(now_us=LATER, most=10_000, epoch=1)
            with index.read() as reader:
                after = reader.lookup([("a",)] * 3, [160, 181, 300])

        assert first >= 50
        assert again >= 50
        assert before == after

    def test_a_step_deletes_a_bounded_number_of_entries_and_the_next_continues(self) -> None:
        facts = [contribution(b"%d" % at, at) for at in range(0, 200, 2)]
        with self.opened(with_history(contributions_spec(()), 40)) as index:
            index.apply(facts, offsets={}, epoch=1)
            steps: list[int] = []
            while not steps or steps[-1]:
                steps.append(index.expire(now_us=LATER, most=7, epoch=1))

        assert max(steps) <= 7
        assert sum(steps) >= 50

    def test_a_replaced_writer_cannot_expire_rows(self) -> None:
        with self.opened(with_history(IndexSpec(log=KEYED), 10)) as index:
            index.apply([row("a", 95, b"\x00")], offsets={}, epoch=2)
            with pytest.raises(IndexFenced):
                index.expire(now_us=LATER, most=10, epoch=1)

    def test_an_index_that_does_not_expire_answers_as_of_any_instant(self) -> None:
        wanted: tuple[Cell, ...] = (None, None)
        spec = attrs.evolve(IndexSpec(log=KEYED), history_us=10)
        with self.opened(spec) as index:
            index.apply([row("a", at, b"\x00") for at in (5, 100)], offsets={}, epoch=1)
            assert index.expire(now_us=LATER, most=1000, epoch=1) == 0
            with index.read() as reader:
                assert reader.answered_from is None
                found = reader.lookup([("a",)] * 4, [4, 15, 16, LATER])

        assert [None if one is None else one.values for one in found] == [
            None,
            wanted,
            None,
            wanted,
        ]
