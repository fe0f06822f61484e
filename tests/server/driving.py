"""Takes a commit's steps through the API, as Airflow's tasks do."""

import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from narthex._base import Json
from narthex._ir.entities import Definitions
from narthex_ledger import Desired, JobView, Phase, ShardReport
from tests.server.calling import TestClient
from tests.server.conftest import DAGS_TOKEN, House
from tests.server.shop import payload

STEP_S = 0.05
GREATEST_S = 60.0
SLOTS = 16


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
    """Plan, and create every asset; return their labels."""
    assets = step(client, commit_id, "plan")["assets"]
    for asset in assets:
        assert step(client, commit_id, f"create/{asset['asset_id']}") == {"state": "live"}
    return [asset["label"] for asset in assets]


def deploy(client: TestClient, definitions: Definitions, **headers: str) -> str:
    """Drive a commit until its head has moved and its jobs should run."""
    commit_id = accept(client, definitions, **headers)
    create_all(client, commit_id)
    finish(client, commit_id)
    return commit_id


def finish(client: TestClient, commit_id: str) -> None:
    """Take the steps of a commit whose assets are live, until its jobs should run."""
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(client, commit_id, name)


def report_caught_up(
    house: House, jobs: Sequence[JobView] | None = None
) -> tuple[ShardReport, ...]:
    """Report running jobs as caught up, and those that rest as such; return what was refused.

    By default, all jobs are reported.
    A job whose slot somebody looks at just now is left for the next time.
    """
    leases = house.ledger.slots.claim("tests", range(SLOTS))
    epochs = {lease.slot: lease.epoch for lease in leases}
    return house.ledger.jobs.report(
        [
            ShardReport(
                asset_id=job.asset.asset_id,
                shard=shard.shard,
                generation=job.generation,
                epoch=epochs[shard.slot],
                phase=Phase.CAUGHT_UP if job.desired is Desired.RUNNING else Phase.STOPPED,
                lag_ms=3,
            )
            for job in (house.ledger.jobs.all() if jobs is None else jobs)
            for shard in job.shards
            if shard.slot in epochs
        ]
    )


def catch_up(house: House) -> None:
    """Report all jobs as a supervisor does, often enough for readers to flip."""
    for _ in range(2):
        assert report_caught_up(house) == ()


def serve(house: House, definitions: Definitions, **headers: str) -> str:
    """Drive a commit until its readers have flipped.

    Its assets are created without a call to the server each, which takes a third of the time.
    """
    commit_id = accept(house.client, definitions, **headers)
    for asset in step(house.client, commit_id, "plan")["assets"]:
        house.services.executor.create(UUID(commit_id), int(asset["asset_id"]))
    finish(house.client, commit_id)
    catch_up(house)
    step(house.client, commit_id, "promote")
    return commit_id


def shown(client: TestClient, commit_id: str) -> Any:
    answer = client.get(f"/api/v1/commits/{commit_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def store_summaries(house: House, of_answers: Sequence[Json], of_rows: Sequence[Json]) -> None:
    """Store counts of logged answers and of rows, as the scheduled tasks do."""
    as_airflow = {"authorization": f"Bearer {DAGS_TOKEN}"}
    upload = {"start": {"0": 0}, "end": {"0": 1}, "summaries": of_answers}
    stored = [
        house.client.post("/api/v1/feature_summaries", json=upload, headers=as_airflow),
        house.client.post(
            "/api/v1/column_summaries", json={"summaries": of_rows}, headers=as_airflow
        ),
    ]
    assert [answer.status_code for answer in stored] == [200, 200]
