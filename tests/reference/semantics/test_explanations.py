"""An explanation names the facts that made a value, and no others."""

from narthex_reference.conformance import feed
from narthex_reference.conformance.aggregate_values import Lists, Numbers, Population
from narthex_reference.conformance.case import SECOND, ConformanceCase, case, delete, row
from narthex_reference.conformance.joined_rows import Rated, SpentWhere
from narthex_reference.conformance.remade_rows import FirstOrder, LatestOrder
from narthex_reference.conformance.shop import Countries, Orders, Users
from narthex_reference.conformance.windowed_groups import HowManySessions, Sessions
from narthex_reference.engines import reference
from narthex_reference.semantics.evaluator import Reference

S = SECOND


def _engine(of: ConformanceCase) -> Reference:
    engine = reference(of.definitions)
    feed(engine, tuple((dataset, (fact,)) for dataset, fact in of.facts))
    return engine


def _explained(
    of: ConformanceCase, dataset: str, key: int | str, as_of: int
) -> list[tuple[str, int]]:
    """Return the datasets and event times of what is named."""
    engine = _engine(of)
    return [(made.dataset, made.event_time) for made in engine.explain(dataset, (key,), as_of)]


ORDERS = (
    row(Orders, 1, "a", 1.0, 10 * S),
    row(Orders, 1, "b", 2.0, 15 * S),
    row(Orders, 1, "c", 3.0, 25 * S),
    row(Orders, 2, "d", 4.0, 15 * S),
)


def test_a_windowed_value_is_made_by_the_rows_in_its_window() -> None:
    numbers = case("", [Orders, Numbers, Lists], ORDERS)

    assert _explained(numbers, "Numbers", 1, 15 * S) == [("Orders", 10 * S), ("Orders", 15 * S)]
    assert _explained(numbers, "Numbers", 1, 25 * S) == [("Orders", 15 * S), ("Orders", 25 * S)]
    assert _explained(numbers, "Lists", 2, 25 * S) == [("Orders", 15 * S)]
    assert _explained(numbers, "Numbers", 1, 99 * S) == []
    assert _explained(numbers, "Numbers", 3, 99 * S) == []


def test_a_whole_row_is_made_by_one_row() -> None:
    rows = case("", [Orders, FirstOrder, LatestOrder], ORDERS)

    assert _explained(rows, "FirstOrder", 1, 99 * S) == [("Orders", 10 * S)]
    assert _explained(rows, "LatestOrder", 1, 99 * S) == [("Orders", 25 * S)]
    assert _explained(rows, "LatestOrder", 1, 9 * S) == []


def test_a_joined_value_is_made_by_both_sides_through_all_datasets() -> None:
    joined = case(
        "",
        [Orders, Users, SpentWhere],
        [*ORDERS, row(Users, 1, "fr", 1, 12 * S), row(Users, 1, "fr", 2, 20 * S)],
    )

    assert _explained(joined, "SpentWhere", "fr", 99 * S) == [
        ("Orders", 15 * S),
        ("Orders", 25 * S),
        ("Users", 12 * S),
        ("Users", 20 * S),
    ]


def test_a_null_that_a_delete_made_is_explained_by_it() -> None:
    rated = case(
        "",
        [Users, Countries, Rated],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Countries, "fr", 0.5, 5 * S),
            delete(Countries, "fr", 20 * S),
        ],
    )

    assert _explained(rated, "Rated", 1, 15 * S) == [("Countries", 5 * S), ("Users", 10 * S)]
    assert _explained(rated, "Rated", 1, 25 * S) == [("Countries", 20 * S), ("Users", 10 * S)]


def test_a_value_of_keyed_rows_depends_on_current_rows() -> None:
    users = case(
        "",
        [Users, Population],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 2, "fr", 1, 11 * S),
            row(Users, 1, "fr", 2, 20 * S),
        ],
    )

    assert _explained(users, "Population", "fr", 15 * S) == [("Users", 10 * S), ("Users", 11 * S)]
    assert _explained(users, "Population", "fr", 20 * S) == [("Users", 11 * S), ("Users", 20 * S)]


def test_a_value_of_sessions_is_made_by_the_rows_in_them() -> None:
    sessions = case("", [Orders, Sessions, HowManySessions], ORDERS)

    assert _explained(sessions, "HowManySessions", 1, 15 * S) == [
        ("Orders", 10 * S),
        ("Orders", 15 * S),
    ]
