"""The values of a dataset are compared between branches, and between readers and a commit."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from docs.reference_examples import examples_of
from narthex._ir.assets import AssetKind, HistorySpec
from narthex._ir.entities import Definitions
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex.client import Client
from narthex_server.deploy.recovery import EXAMPLES_KEPT
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, history_path
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.data.test_training_sets import HouseCaller
from tests.server.driving import accept, catch_up, create_all, report_caught_up, serve, shown, step
from tests.server.weighed_parcels import weighed
from tests.sessions import differences, run_by

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

HOUR_US = 3_600_000_000
WITHIN_S = 60.0
DEV = {"x-narthex-branch": "dev"}
GRAMS = {"p1": 1500, "p2": 400}


@contextlib.contextmanager
def house_in(path: Path, dsn: str, **more: Any) -> Iterator[House]:
    settings = attrs.evolve(settings_at(path, dsn=dsn, kafka=NOBODY), **more)
    adapters = in_memory() | {AssetKind.HISTORY: HistoryAdapter(history_dir=settings.history_dir)}
    with house_at(settings, adapters=adapters) as made:
        yield made


@pytest.fixture
def house(tmp_path: Path, ledger_dsn: str) -> Iterator[House]:
    """A server whose histories are real, and whose other stores are in memory."""
    with house_in(tmp_path, ledger_dsn) as made:
        yield made


def deploy_filled(house: House, definitions: Definitions, **headers: str) -> str:
    """Drive a commit until its jobs should run; its backfills end at once, with no row."""
    commit_id = accept(house.client, definitions, **headers)
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfill"):
        step(house.client, commit_id, name)
    for job in house.ledger.backfills.due(UUID(commit_id)):
        epoch = house.ledger.backfills.claim(UUID(commit_id), job.asset.asset_id)
        house.ledger.backfills.finish(job.asset.asset_id, epoch, offsets={})
    step(house.client, commit_id, "backfilled")
    return commit_id


def fill(house: House, commit_id: str, dataset: str, values: Mapping[str, Cell]) -> None:
    """Append rows with one value to the history of a dataset, as its writer does."""
    fill_rows(house, commit_id, dataset, {key: (value,) for key, value in values.items()})


def fill_rows(
    house: House, commit_id: str, dataset: str, rows: Mapping[str, tuple[Cell, ...] | None]
) -> None:
    """Append the values of each key, an hour apart; without values, an hour has no row."""
    manifest_id = house.ledger.commits.get(UUID(commit_id)).manifest_id
    assert manifest_id is not None
    manifest = house.ledger.manifests.get(manifest_id)
    (plan,) = [plan for plan in manifest.plans if plan.name == dataset]
    name = manifest.bindings[f"dataset/{dataset}/history"].physical_name
    table = HistoryTable(
        history_path(house.services.settings.history_dir, name), HistorySpec(log=plan.log)
    )
    table.append_rows(
        [
            LogRow(
                0,
                number,
                Fact(
                    row_id=RowId(key.encode()),
                    version=Version(b"0"),
                    event_time=(number + 1) * HOUR_US,
                    key=(key,),
                    values=values,
                ),
            )
            for number, (key, values) in enumerate(rows.items())
            if values is not None
        ]
    )


def kilograms(grams: float) -> dict[str, Cell]:
    return {parcel: of / grams for parcel, of in GRAMS.items()}


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[House]:
    """Branches `main` and `dev`, of which the second one has pounds of 500 grams."""
    with house_in(tmp_path_factory.mktemp("branches"), module_ledger_dsn) as house:
        on_main = serve(house, weighed(1000.0))
        fill(house, on_main, "Parcels", GRAMS)
        fill(house, on_main, "Kilograms", kilograms(1000.0))
        assert house.client.post("/api/v1/init", json={}, headers=DEV).is_success
        on_dev = deploy_filled(house, weighed(500.0), **DEV)
        catch_up(house)
        step(house.client, on_dev, "promote")
        fill(house, on_dev, "Kilograms", kilograms(500.0))
        yield house


def compared(client: TestClient, **more: Any) -> Any:
    call = {"dataset": "Kilograms", "branches": ["main", "dev"]} | more
    return client.post("/api/v1/diff", json=call)


def with_scopes(house: House, *scopes: str, **limits: Any) -> TestClient:
    token = f"nx_tests_{'_'.join(scopes)}"
    house.ledger.tokens.put(token, name=token, scopes=scopes, **limits)
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


@pytest.mark.parametrize("name", run_by(__name__))
def test_an_example_of_the_reference_shows_the_difference(name: str, branches: House) -> None:
    server = Client("", caller=HouseCaller(branches.client))

    told = differences(examples_of("narthex.client"), name, {"server": server})

    assert not told, "".join(told)


def test_branches_differ_by_key_column_and_feature(branches: House) -> None:
    found = compared(branches.client).json()

    assert found["keys"] == {
        "compared": 2,
        "same": 0,
        "differ": 2,
        "on_first_only": 0,
        "on_second_only": 0,
    }
    (column,) = found["columns"]
    assert (column["differ"], column["greatest_difference"]) == (2, 1.5)
    assert found["features"] == {"kilograms": ["Parcel.is_heavy", "Parcel.kilograms"]}
    assert [(one["dataset"], one["kind"], one["keys"]) for one in found["causes"]] == [
        ("Kilograms", "definition", 2)
    ]
    assert found["as_of"] == "1970-01-01T02:00:00.000000Z"
    assert found["summary"] == (
        "Kilograms: 2 of 2 keys differ: kilograms of 2 by 0.95 on average and at most 1.5; for 2 "
        "keys the definition of Kilograms differs (versions 1 and 1), its inputs do not"
    )
    shown_keys = {one["key"]["parcel"]: (one["first"], one["second"]) for one in found["examples"]}
    assert shown_keys == {"p1": (1.5, 3.0), "p2": (0.4, 0.8)}


def test_features_differ_by_key_and_are_followed_to_a_dataset(branches: House) -> None:
    found = compared(branches.client, dataset="Parcel").json()

    assert (found["keys"]["compared"], found["keys"]["differ"]) == (2, 2)
    differing = {one["column"]: one["differ"] for one in found["columns"]}
    # One parcel of 0.4 is light on both branches, the other one heavy.
    assert differing == {"Parcel.is_heavy": 0, "Parcel.kilograms": 2}
    assert [(one["dataset"], one["kind"], one["keys"]) for one in found["causes"]] == [
        ("Kilograms", "definition", 2)
    ]
    assert found["features"] == {"Parcel.kilograms": []}
    assert found["summary"].startswith(
        "Parcel: 2 of 2 keys differ: Parcel.kilograms of 2 by 0.95 on average and at most 1.5; "
    )
    shown_rows = {one["key"]["Parcel.parcel"]: one["first"] for one in found["examples"]}
    assert shown_rows == {"p1": 1.5, "p2": 0.4}


def test_rows_of_features_are_given_and_checked(branches: House) -> None:
    given = compared(branches.client, dataset="Parcel", keys=[{"Parcel.parcel": "p2"}]).json()
    wrong = compared(branches.client, dataset="Parcel", keys=[{"parcel": "p2"}])
    shared = compared(branches.client, dataset="Parcel", share=0.5)
    few = compared(with_scopes(branches, "steps"), dataset="Parcel").json()

    assert given["keys"]["compared"] == 1
    assert (wrong.status_code, "row 0 lacks `Parcel.parcel`" in wrong.text) == (400, True)
    assert (shared.status_code, "pass `keys` of a featureset" in shared.text) == (400, True)
    assert (few["examples"], few["keys"]["differ"]) == (None, 2)


def test_a_shared_history_is_the_same(branches: House) -> None:
    found = compared(branches.client, dataset="Parcels").json()

    assert (found["same_history"], found["keys"]["same"], found["features"]) == (True, 2, {})
    assert found["summary"] == "Parcels: both sides read the same history"


def test_keys_and_an_instant_select_what_is_compared(branches: House) -> None:
    given = compared(branches.client, keys=[{"parcel": "p2"}]).json()
    early = compared(branches.client, at="1970-01-01T01:00:00Z", share=1.0).json()
    unlike = compared(branches.client, keys=[{"order": "p2"}])
    local = compared(branches.client, at="1970-01-01T01:00:00").json()

    assert (given["keys"]["compared"], given["share"]) == (1, None)
    assert (early["keys"]["compared"], early["share"]) == (1, 1.0)
    assert (unlike.status_code, unlike.json()["err_msg"]) == (400, "key 0 has order, not parcel")
    assert local["err_msg"] == "`at` needs a time zone, such as Z"


def test_a_token_that_may_not_read_data_sees_counts_only(branches: House) -> None:
    client = with_scopes(branches, "read:definitions")

    found = compared(client).json()
    given = compared(client, keys=[{"parcel": "p1"}])

    assert found["keys"]["differ"] == 2
    (column,) = found["columns"]
    assert (column["differ"], column["mean_difference"]) == (2, None)
    assert column["greatest_difference"] is None
    assert found["examples"] is None
    assert "1.5" not in str(found)
    assert given.status_code == 403


def test_a_token_compares_its_own_branches_only(branches: House) -> None:
    client = with_scopes(branches, "reader", branches=("main",))

    assert compared(client).status_code == 403
    assert compared(branches.client, dataset="Nobody").status_code == 404
    assert compared(branches.client, branches=["main", "nowhere"]).status_code == 404


def compare(house: House, commit_id: str) -> None:
    """Take the step while the supervisor goes on reporting."""
    ends_at = time.monotonic() + WITHIN_S
    while True:
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/compare")
        if answer.status_code != 409:
            assert answer.status_code == 200, answer.text
            return
        assert time.monotonic() < ends_at, answer.text
        report_caught_up(house)
        time.sleep(0.2)


@pytest.fixture
def waiting(house: House) -> str:
    """A commit on a protected branch that only waits for a person, and changes values."""
    first = serve(house, weighed(1000.0))
    fill(house, first, "Parcels", GRAMS)
    fill(house, first, "Kilograms", kilograms(1000.0))
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    commit_id = deploy_filled(house, weighed(500.0, version=2))
    fill(house, commit_id, "Kilograms", kilograms(500.0) | {"p3": 1.0})
    catch_up(house)
    return commit_id


SUMMARY = (
    "Kilograms: 2 of 2 keys differ: kilograms of 2 by 0.95 on average and at most 1.5; for 2 keys "
    "the definition of Kilograms differs (versions 1 and 2), its inputs do not"
)


OF_FEATURES = (
    "Parcel: 2 of 3 keys differ: Parcel.kilograms of 2 by 0.633333 on average and at most 1.5; for "
    "2 keys the definition of Kilograms differs (versions 1 and 2), its inputs do not"
)


def test_a_person_who_approves_is_shown_what_changes(house: House, waiting: str) -> None:
    compare(house, waiting)

    found = shown(house.client, waiting)
    page = house.client.get(f"/console/commits/{waiting}").text
    approved = house.client.post(f"/api/v1/commits/{waiting}/approve").json()

    assert found["approval"]["differences"] == [SUMMARY, OF_FEATURES]
    assert [one["dataset"] for one in found["differences"]] == ["Kilograms", "Parcel"]
    assert {one["key"]["parcel"] for one in found["differences"][0]["examples"]} == {"p1", "p2"}
    assert approved["differences"] == [SUMMARY, OF_FEATURES]
    assert "Values that change" in page
    assert "kilograms of 2 by 0.95" in page


def test_the_recovery_loop_compares_and_waits_for_nothing(house: House, waiting: str) -> None:
    house.services.recovery.look_after(UUID(waiting))

    ends_at = time.monotonic() + WITHIN_S
    while not (found := house.ledger.value_diffs.of_commit(UUID(waiting))):
        assert time.monotonic() < ends_at
        time.sleep(0.2)
    compare(house, waiting)

    assert house.ledger.value_diffs.of_commit(UUID(waiting)) == found
    report_caught_up(house)
    house.client.post(f"/api/v1/commits/{waiting}/approve")
    step(house.client, waiting, "promote")
    assert shown(house.client, waiting)["promotion"] == "DONE"


def test_keys_and_values_of_a_commit_are_for_few_and_deleted(house: House, waiting: str) -> None:
    compare(house, waiting)
    client = with_scopes(house, "steps")

    seen, _ = shown(client, waiting)["differences"]
    kept = house.ledger.value_diffs.forget_examples(older_than=EXAMPLES_KEPT)
    gone = house.ledger.value_diffs.forget_examples(older_than=EXAMPLES_KEPT * 0)
    after, _ = shown(house.client, waiting)["differences"]

    assert (seen["examples"], seen["columns"][0]["greatest_difference"]) == (None, None)
    assert "1.5" not in shown(client, waiting)["approval"]["differences"][0]
    assert (kept, gone) == (0, 2)
    assert (after["examples"], after["keys"]["differ"]) == (None, 2)


def test_a_history_that_cannot_be_read_does_not_stop_a_commit(house: House) -> None:
    serve(house, weighed(1000.0))
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    commit_id = deploy_filled(house, weighed(500.0, version=2))
    catch_up(house)
    for log in Path(house.services.settings.history_dir).glob("*/_delta_log"):
        log.rename(log.with_name("moved"))

    compare(house, commit_id)

    found = shown(house.client, commit_id)["differences"]
    assert [one["keys"] for one in found] == [None, None]
    for one in found:
        said = f"{one['dataset']}: the values could not be compared: "
        assert one["summary"].startswith(said)
