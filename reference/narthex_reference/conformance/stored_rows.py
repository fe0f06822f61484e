"""Cases of datasets that sources fill: their rows, and the value of a key at each instant."""

from narthex_reference.conformance import corrected_shop as corrected
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    delete,
    found,
    holds,
    missing,
    row,
)
from narthex_reference.conformance.shop import Orders, Users

S = SECOND

CASES: tuple[ConformanceCase, ...] = (
    case(
        "a keyless dataset has every row, by event time and then by place in its source",
        [Orders],
        [
            row(Orders, 1, "b", 2.0, 20 * S),
            row(Orders, 1, "a", None, 10 * S),
            row(Orders, 2, "c", 3.0, 20 * S),
        ],
        holds(
            Orders,
            (1, "a", None, 10 * S),
            (1, "b", 2.0, 20 * S),
            (2, "c", 3.0, 20 * S),
        ),
    ),
    case("a dataset without rows is empty", [Orders, Users], [], holds(Orders), holds(Users)),
    case(
        "the state with the highest version of a row counts",
        [corrected.Receipts, corrected.Orders],
        [
            row(corrected.Receipts, 1, 1, "a", 1.0, 10 * S),
            row(corrected.Receipts, 2, 2, "b", 2.0, 11 * S),
            row(corrected.Receipts, 1, 1, "a", 5.0, 10 * S),
            delete(corrected.Receipts, 2, 11 * S),
        ],
        holds(corrected.Orders, (1, "a", 5.0, 10 * S)),
    ),
    case(
        "a key is its newest row at or before the question, and nothing before its first",
        [Users],
        [
            row(Users, 1, "de", None, 20 * S),
            row(Users, 1, "fr", 7, 10 * S),
        ],
        missing(Users, 1, at=10 * S - 1),
        found(Users, 1, at=10 * S, gives=["fr", 7]),
        found(Users, 1, at=20 * S - 1, gives=["fr", 7]),
        found(Users, 1, at=20 * S, gives=["de", None]),
        found(Users, 1, at=1000 * S, gives=["de", None]),
        missing(Users, 2, at=1000 * S),
    ),
    case(
        "of two rows of a key at one instant the later one in the source counts",
        [Users],
        [
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 1, "fr", 2, 10 * S),
        ],
        holds(Users, (1, "fr", 2, 10 * S)),
        found(Users, 1, at=10 * S, gives=["fr", 2]),
    ),
    case(
        "a delete makes a key absent from its instant on, and a later row brings it back",
        [Users],
        [
            delete(Users, 1, 20 * S),
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 1, "fr", 2, 30 * S),
        ],
        found(Users, 1, at=20 * S - 1, gives=["de", 1]),
        missing(Users, 1, at=20 * S),
        missing(Users, 1, at=30 * S - 1),
        found(Users, 1, at=30 * S, gives=["fr", 2]),
        holds(Users, (1, "de", 1, 10 * S), (1, 20 * S), (1, "fr", 2, 30 * S)),
    ),
    case(
        "a delete that arrives before what it deletes holds; one of nothing is nothing",
        [Users],
        [
            delete(Users, 1, 10 * S),
            delete(Users, 2, 10 * S),
            row(Users, 2, "de", 1, 5 * S),
            delete(Users, 2, 15 * S),
        ],
        holds(Users, (2, "de", 1, 5 * S), (2, 10 * S)),
        missing(Users, 1, at=20 * S),
        missing(Users, 2, at=20 * S),
    ),
    case(
        "a delete at the very instant of a row is the state there if it comes later in the source",
        [Users],
        [
            row(Users, 1, "de", 1, 10 * S),
            delete(Users, 1, 10 * S),
            delete(Users, 2, 10 * S),
            row(Users, 2, "fr", 2, 10 * S),
        ],
        missing(Users, 1, at=10 * S),
        found(Users, 2, at=10 * S, gives=["fr", 2]),
        holds(Users, (2, "fr", 2, 10 * S)),
    ),
)
