# mypy: disable-error-code="call-overload, assignment"
"""Cases of code that reads data files of its project."""

from datetime import datetime

import pandas as pd

from narthex._sdk.datasets import Rows
from narthex.datasets import dataset, field, pipeline
from narthex.lib import data_file, inputs
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    delete,
    found,
    missing,
    row,
)
from narthex_reference.conformance.shop import Users

S = SECOND
COUNTRIES = data_file("countries.csv")


def continents() -> dict[str, str]:
    """Return the continent of each country of the file."""
    table = pd.read_csv(COUNTRIES.open())
    return dict(zip(table["country"], table["continent"], strict=True))


@dataset(index=True)
class Continents:
    """Users with their continent, if the file has their country."""

    uid: int = field(key=True)
    continent: str
    at: datetime

    @pipeline
    @inputs(Users)
    def continents(cls, users: Rows) -> Rows:
        known = users.filter(lambda df: df["country"].isin(list(continents())))
        return known.assign(
            "continent", str, lambda df: df["country"].map(continents()).astype("string")
        ).drop("country", "score")


CASES: tuple[ConformanceCase, ...] = (
    case(
        "code reads a data file of its project",
        [Users, Continents],
        [
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 2, "zz", None, 11 * S),
            row(Users, 3, "jp", 3, 12 * S),
            row(Users, 3, "fr", 3, 14 * S),
            delete(Users, 1, 20 * S),
        ],
        found(Continents, 1, at=15 * S, gives=["Europe"]),
        missing(Continents, 1, at=20 * S),
        missing(Continents, 2, at=20 * S),
        found(Continents, 3, at=13 * S, gives=["Asia"]),
        found(Continents, 3, at=14 * S, gives=["Europe"]),
    ),
)
