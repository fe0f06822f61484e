"""Definitions that need earlier rows are committed, backfilled and queried like all others."""

import pytest

from tests.acceptance import residents
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

EARLY, LATE = "2026-04-01T12:00:00Z", "2026-04-03T12:00:00Z"


def people(platform: Platform, as_of: str) -> dict[str, int]:
    return {
        city: platform.ask(["City.people"], as_of=as_of, city=city)["people"]
        for city in ("rome", "oslo")
    }


def of_ann(platform: Platform, as_of: str) -> tuple[int, int]:
    asked = platform.ask(["Resident.moves", "Resident.longest"], as_of=as_of, user="ann")
    return asked["moves"], asked["longest"]


def test_moves_and_late_visits_change_what_they_touch(market: Market) -> None:
    platform = market.platform
    answer = platform.client.commit(
        "residents",
        residents.DATASETS,
        residents.FEATURESETS,
        incremental=True,
        timeout_s=COMMIT_S,
    )
    assert answer.body["promotion"] == "DONE"
    names = {"People", "Moves", "Stays", "Longest"}
    stateful = {
        job["label"].partition(".")[0] for job in platform.jobs() if job["trigger"] == "stateful"
    }
    assert names <= stateful

    platform.log(
        "residents",
        [
            {"user": "ann", "city": "rome", "since": "2026-04-01T08:00:00Z"},
            {"user": "bob", "city": "rome", "since": "2026-04-01T09:00:00Z"},
            {"user": "ann", "city": "oslo", "since": "2026-04-02T08:00:00Z"},
        ],
    )
    platform.log(
        "visits",
        [
            {"user": "ann", "page": "a", "at": "2026-04-01T10:00:00Z"},
            {"user": "ann", "page": "b", "at": "2026-04-01T10:15:00Z"},
        ],
    )
    wait_until(
        lambda: (
            people(platform, LATE) == {"rome": 1, "oslo": 1} and of_ann(platform, LATE) == (1, 1)
        ),
        within_s=STREAM_S,
        what="the moves and the visits are counted",
        so_far=lambda: (people(platform, LATE), of_ann(platform, LATE)),
    )
    assert people(platform, EARLY) == {"rome": 2, "oslo": 0}
    assert of_ann(platform, EARLY) == (0, 1)

    # A visit between two stays makes them one; a late move makes the first one a day earlier.
    platform.log("visits", [{"user": "ann", "page": "c", "at": "2026-04-01T10:08:00Z"}])
    platform.log("residents", [{"user": "ann", "city": "bonn", "since": "2026-04-01T11:00:00Z"}])
    wait_until(
        lambda: (
            people(platform, EARLY) == {"rome": 1, "oslo": 0} and of_ann(platform, LATE) == (2, 3)
        ),
        within_s=STREAM_S,
        what="the late rows change the past",
        so_far=lambda: (people(platform, EARLY), of_ann(platform, LATE)),
    )
    assert people(platform, LATE) == {"rome": 1, "oslo": 1}
    assert of_ann(platform, EARLY) == (1, 3)
