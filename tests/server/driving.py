"""Takes a commit's steps through the API, as Airflow's tasks do."""

import time
from typing import Any

from narthex.entities import Definitions
from narthex_ledger import Phase, ShardReport
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.shop import payload

STEP_S = 0.05
GREATEST_S = 60.0


def accept(client: TestClient, definitions: Definitions, **headers: str) -> str:
    answer = client.post("/api/v1/commit", content=payload(definitions), headers=headers)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["commit_id"])


def step(client: TestClient, commit_id: str, name: str) -> Any:
    """Take a step, asking again while it cannot be taken yet, as a task does."""
    ends_at = time.monotonic() + GREATEST_S
    while True:
        answer = client.post(f"/api/v1/commits/{commit_id}/steps/{name}")
        if answer.status_code != 409 or time.monotonic() > ends_at:
            assert answer.status_code == 200, f"{name}: {answer.text}"
            return answer.json()
        time.sleep(STEP_S)


def create_all(client: TestClient, commit_id: str) -> list[str]:
    """Plan, and create every asset; give their labels."""
    assets = step(client, commit_id, "plan")["assets"]
    for asset in assets:
        assert step(client, commit_id, f"create/{asset['asset_id']}") == {"state": "live"}
    return [asset["label"] for asset in assets]


def deploy(client: TestClient, definitions: Definitions) -> str:
    """Drive a commit until its head has moved and its jobs should run."""
    commit_id = accept(client, definitions)
    create_all(client, commit_id)
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(client, commit_id, name)
    return commit_id


def serve(house: House, definitions: Definitions) -> str:
    """Take a commit to its readers: its jobs are reported as caught up, as a supervisor would."""
    commit_id = deploy(house.client, definitions)
    ledger = house.ledger
    epochs = {
        lease.slot: lease.epoch
        for lease in ledger.claim_slots("tests", sorted({j.shards[0].slot for j in ledger.jobs()}))
    }
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[job.shards[0].slot],
            phase=Phase.CAUGHT_UP,
            lag_ms=0,
        )
        for job in ledger.jobs()
    ]
    for _ in range(2):
        assert ledger.report(reports) == ()
    step(house.client, commit_id, "promote")
    return commit_id


def shown(client: TestClient, commit_id: str) -> Any:
    answer = client.get(f"/api/v1/commits/{commit_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()
