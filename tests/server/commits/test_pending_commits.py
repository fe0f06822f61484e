"""One route lists pending commits with their blockers: another commit, a job, a person."""

import pytest

from tests.server.commits.test_rollback import committed, post, without_featuresets
from tests.server.conftest import House
from tests.server.driving import accept, catch_up, create_all, step
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def waiting(house: House) -> dict[str, list[str]]:
    found = house.client.get("/api/v1/waiting").json()["commits"]
    return {one["commit_id"]: one["waits_for"] for one in found}


def test_pending_commits_are_listed_with_blockers_until_they_end(house: House) -> None:
    post(house, "branch/protect", {"protected": True})
    post(house, "init", **{"x-narthex-branch": "dev"})
    first = committed(house, shop_definitions())
    elsewhere = accept(house.client, shop_definitions(), **{"x-narthex-branch": "dev"})
    behind = accept(house.client, without_featuresets())
    create_all(house.client, behind)
    held = accept(house.client, shop_definitions())

    told = waiting(house)

    assert set(told) == {first, behind, held, elsewhere}
    assert any("is running" in one or "slot" in one or "waiting" in one for one in told[first])
    assert told[elsewhere] == ["the next recovery pass, which plans it"]
    assert told[held] == [f"commit {behind} to end, which is PLANNED and has the branch"]

    step(house.client, first, "backfilled")
    catch_up(house)
    person = (
        f"a person, who approves it in the console, in Airflow or with `narthex approve {first}`"
    )
    assert waiting(house)[first] == [person]
    assert house.client.get(f"/api/v1/commits/{first}").json()["waits_for"] == [person]
    page = house.client.get("/console/waiting").text
    assert first in page
    assert "has the branch" in page
    post(house, f"commits/{first}/approve")
    step(house.client, first, "promote")
    assert first not in waiting(house)


def test_a_pending_commit_is_listed_however_many_came_after_it(house: House) -> None:
    post(house, "branch/protect", {"protected": True})
    first = committed(house, shop_definitions())
    for number in range(210):
        post(house, "init", **{"x-narthex-branch": f"b{number}"})

    assert len(house.ledger.commits.newest(limit=500)) == 211
    assert set(waiting(house)) == {first}
