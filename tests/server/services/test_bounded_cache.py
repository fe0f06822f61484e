"""A cache stays within its weight, and drops the entry that was not used for longest."""

from hypothesis import given
from hypothesis import strategies as st

from narthex_server.services.bounded_cache import BoundedCache


def test_the_entry_that_was_not_used_for_longest_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1, weight=1)
    cache.put("b", 2, weight=1)
    assert cache.get("a") == 1

    cache.put("c", 3, weight=1)

    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert cache.recent_keys() == ["a", "c"]


def test_the_first_value_of_a_key_remains_unless_it_is_replaced() -> None:
    cache: BoundedCache[str, int] = BoundedCache(9)

    assert cache.put("a", 1, weight=1) == 1
    assert cache.put("a", 2, weight=1) == 1
    cache.replace("a", 3, weight=1)

    assert cache.get("a") == 3


def test_an_entry_that_is_too_heavy_is_alone_in_the_cache() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1, weight=1)

    cache.put("b", 2, weight=9)
    assert cache.recent_keys() == ["b"]

    cache.put("c", 3, weight=1)
    assert cache.recent_keys() == ["c"]


_STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "replace", "remove"]), st.integers(0, 5), st.integers(1, 4))
)


@given(_STEPS)
def test_the_entries_weigh_no_more_than_the_bound_unless_one_does(
    steps: list[tuple[str, int, int]],
) -> None:
    cache: BoundedCache[int, int] = BoundedCache(5)
    for step, key, weight in steps:
        match step:
            case "put":
                cache.put(key, weight, weight=weight)
            case "replace":
                cache.replace(key, weight, weight=weight)
            case _:
                cache.remove(key)
        weights = [cache.get(each) or 0 for each in cache.recent_keys()]
        assert sum(weights) <= 5
