"""A commit, from plan to jobs, on a real ledger, a real broker and real directories."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest

from narthex._ir.assets import AssetKind
from narthex._ir.entities import Definitions
from narthex_ledger import TENANT, CommitRequest, CommitState, Desired
from narthex_server.__main__ import make_adapters
from narthex_stack.machine.ports import free_ports
from narthex_stack.servers import kafka
from narthex_stack.servers.local_servers import running
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import accept, create_all, deploy, shown, step
from tests.server.shop import payload, shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

STORES = (AssetKind.KAFKA_TOPIC, AssetKind.INDEX, AssetKind.HISTORY, AssetKind.CHECKPOINT)
WITHIN_S = 60.0


@pytest.fixture
def real_house(tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str) -> Iterator[House]:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap)
    with house_at(settings) as house:
        yield house
        destroy_all(house)


def standing(house: House) -> dict[AssetKind, list[str]]:
    """List the assets in the stores with this installation's names."""
    adapters = make_adapters(house.services.settings)
    ours = f"nx_{house.services.settings.install_id}"
    return {
        kind: [
            one.name
            for one in adapters[kind].list(f"{ours}_", timeout_s=20.0)
            if not one.name.startswith(f"{ours}_mark_")
        ]
        for kind in STORES
    }


def destroy_all(house: House) -> None:
    adapters = make_adapters(house.services.settings)
    for kind, names in standing(house).items():
        for name in names:
            adapters[kind].destroy(name, external_id=None, timeout_s=20.0)


def is_empty(found: dict[AssetKind, list[str]]) -> bool:
    return not any(found.values())


def look_after_until(house: House, commit_id: str, state: CommitState) -> None:
    """Let the recovery loop take its turns until the commit has ended so."""
    ends_at = time.monotonic() + WITHIN_S
    while (found := house.ledger.commits.get(UUID(commit_id)).state) is not state:
        assert time.monotonic() < ends_at, f"it is {found}: {shown(house.client, commit_id)}"
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/rollback")
        assert answer.status_code in {200, 409}, answer.text


def test_a_commit_creates_everything_once_and_its_jobs_should_run(real_house: House) -> None:
    client = real_house.client
    commit_id = accept(client, shop_definitions())

    labels = create_all(client, commit_id)
    again = [
        step(client, commit_id, f"create/{asset['asset_id']}")
        for asset in shown(client, commit_id)["assets"]
    ]
    assert step(client, commit_id, "plan") == {"assets": []}
    for name in ("ready", "ready", "commit", "commit", "backfill", "backfilled", "backfilled"):
        step(client, commit_id, name)

    found = shown(client, commit_id)
    assert {tuple(one.items()) for one in again} == {(("state", "live"),)}
    assert (found["state"], found["promotion"], found["seq"]) == ("COMMITTED", "PENDING", 1)
    assert {asset["state"] for asset in found["assets"]} == {"live"}
    assert {asset["attempt"] for asset in found["assets"] if asset["kind"] == "kafka_topic"} == {1}
    assert [asset["label"] for asset in found["assets"]] == labels
    here = standing(real_house)
    for kind in STORES:
        names = [a["physical_name"] for a in found["assets"] if a["kind"] == kind.value]
        assert sorted(here[kind]) == sorted(names)
        assert names
    assert {job.desired for job in real_house.ledger.jobs.all()} == {Desired.RUNNING}


def test_readers_do_not_flip_before_the_jobs_have_caught_up(real_house: House) -> None:
    commit_id = deploy(real_house.client, shop_definitions())

    answer = real_house.client.post(f"/api/v1/commits/{commit_id}/steps/promote")

    assert answer.status_code == 409
    assert "have not caught up" in answer.json()["err_msg"]
    ready = real_house.client.get(f"/api/v1/commits/{commit_id}/readiness").json()
    assert ready["ready"] is False
    assert ready["waiting_for"]
    assert real_house.client.get("/api/v1/datasets").status_code == 404


def test_the_same_definitions_again_share_everything(real_house: House) -> None:
    deploy(real_house.client, shop_definitions())
    before = standing(real_house)

    second = accept(real_house.client, shop_definitions())
    assert step(real_house.client, second, "plan") == {"assets": []}
    for name in ("ready", "commit"):
        step(real_house.client, second, name)

    assert standing(real_house) == before
    assert shown(real_house.client, second)["seq"] == 2


@pytest.mark.slow
def test_an_aborted_commit_leaves_no_stray(real_house: House) -> None:
    client = real_house.client
    commit_id = accept(client, shop_definitions())
    assets = step(client, commit_id, "plan")["assets"]
    for asset in assets[:12]:
        step(client, commit_id, f"create/{asset['asset_id']}")
    assert not is_empty(standing(real_house))

    look_after_until(real_house, commit_id, CommitState.ABORTED)

    assert is_empty(standing(real_house))
    assert shown(client, commit_id)["error"] == "the run failed"
    refused = client.post(f"/api/v1/commits/{commit_id}/steps/create/{assets[12]['asset_id']}")
    assert refused.status_code == 410
    assert is_empty(standing(real_house))


def test_a_failing_run_reverts_a_commit_past_its_commit_point(
    real_house: House,
) -> None:
    commit_id = deploy(real_house.client, shop_definitions())
    before = standing(real_house)

    assert step(real_house.client, commit_id, "rollback") == {"state": "FINALIZED"}

    found = shown(real_house.client, commit_id)
    assert (found["state"], found["promotion"]) == ("FINALIZED", "SUPERSEDED")
    assert {asset["refs"] for asset in found["assets"]} == {0}
    assert standing(real_house) == before
    tenant = real_house.services.tenant
    assert real_house.ledger.branches.get(tenant, "main").head_commit_id is None


def test_the_recovery_loop_alone_carries_a_commit_past_its_commit_point(real_house: House) -> None:
    commit_id = accept(real_house.client, shop_definitions())

    real_house.services.recovery.start()
    try:
        ends_at = time.monotonic() + WITHIN_S
        while {job.desired for job in real_house.ledger.jobs.all()} != {Desired.RUNNING}:
            assert time.monotonic() < ends_at, shown(real_house.client, commit_id)
    finally:
        real_house.services.recovery.stop()

    assert shown(real_house.client, commit_id)["state"] == "COMMITTED"


def accept_with_deadline(house: House, definitions: Definitions, *, deadline_s: float) -> str:
    """Accept a commit with a shorter deadline than the default."""
    body = payload(definitions)
    tenant = house.ledger.installation.ensure_tenant(TENANT)
    commit_id = UUID(bytes=hashlib.sha256(body + os.urandom(8)).digest()[:16])
    house.ledger.commits.accept(
        CommitRequest(
            commit_id=commit_id,
            tenant=tenant,
            branch=house.ledger.branches.ensure(tenant, "main"),
            idempotency_key=str(commit_id),
            request_sha256=hashlib.sha256(body).digest(),
            actor="tests",
            bundle=house.ledger.bundles.sign(body),
            deadline_s=deadline_s,
        )
    )
    house.services.recovery.notice(commit_id)
    return str(commit_id)


def wait_until(house: House, commit_id: str, *states: CommitState) -> CommitState:
    ends_at = time.monotonic() + WITHIN_S
    while (found := house.ledger.commits.get(UUID(commit_id)).state) not in states:
        assert time.monotonic() < ends_at, f"it is {found}: {shown(house.client, commit_id)}"
    return found


@pytest.mark.slow
def test_a_commit_during_which_kafka_stops_is_undone_and_its_retry_succeeds(
    tmp_path: Path, ledger_dsn: str
) -> None:
    port, controller_port = free_ports(2)
    broker = kafka.KafkaNode(
        directory=tmp_path / "broker" / "kafka",
        port=port,
        controller_port=controller_port,
    )
    service = kafka.service(broker)
    settings = settings_at(tmp_path / "home", dsn=ledger_dsn, kafka=broker.bootstrap)
    with ExitStack() as house_and_loop:
        house = house_and_loop.enter_context(house_at(settings))
        with running(service, home=tmp_path / "broker") as child:
            commit_id = accept_with_deadline(house, shop_definitions(), deadline_s=15.0)
            assets = step(house.client, commit_id, "plan")["assets"]
            for asset in assets[:12]:
                step(house.client, commit_id, f"create/{asset['asset_id']}")
            assert len(standing(house)[AssetKind.KAFKA_TOPIC]) >= 2
            child.kill()

        house.services.recovery.start()
        house_and_loop.callback(house.services.recovery.stop)
        wait_until(house, commit_id, CommitState.ABORTING)

        with running(service, home=tmp_path / "broker"):
            wait_until(house, commit_id, CommitState.ABORTED)
            assert is_empty(standing(house))
            assert house.client.get("/api/v1/jobs").json() == {"jobs": []}

            retried = accept(house.client, shop_definitions())
            wait_until(house, retried, CommitState.COMMITTED, CommitState.FINALIZED)
            assert len(standing(house)[AssetKind.KAFKA_TOPIC]) == 8
            house.services.recovery.stop()
