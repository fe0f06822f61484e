"""The backfill of a commit is shown by dataset: the rows that were read, of how many."""

from typing import Any
from uuid import UUID

import pytest

from tests.server.commits.test_plan import raised
from tests.server.conftest import House
from tests.server.driving import accept, create_all, serve, step
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres


def progress(house: House, commit_id: str) -> dict[str, Any]:
    """Return the progress of each dataset by its name."""
    answer = house.client.get(f"/api/v1/commits/{commit_id}/backfill")
    assert answer.status_code == 200, answer.text
    return {one["dataset"]: one for one in answer.json()["datasets"]}


def test_each_dataset_has_the_rows_that_its_jobs_have_read(house: House) -> None:
    serve(house, shop_definitions())
    commit_id = accept(house.client, raised("Orders"))
    create_all(house.client, commit_id)
    step(house.client, commit_id, "ready")
    before = progress(house, commit_id)
    step(house.client, commit_id, "commit")
    due = step(house.client, commit_id, "backfill")
    backfills = house.ledger.backfills
    first, *others = backfills.due(UUID(commit_id))
    epoch = backfills.claim(UUID(commit_id), first.asset.asset_id)
    assert epoch is not None

    begun = progress(house, commit_id)
    backfills.report(first.asset.asset_id, epoch, progress={"rows": 3, "of": 7})
    reported = progress(house, commit_id)
    backfills.release(first.asset.asset_id, epoch, error="a file is missing")
    failed = progress(house, commit_id)
    epoch = backfills.claim(UUID(commit_id), first.asset.asset_id)
    assert epoch is not None
    backfills.finish(first.asset.asset_id, epoch, offsets={}, rows=7)
    filled = progress(house, commit_id)

    name = str(first.asset.spec.dataset)  # type: ignore[union-attr]
    assert before == {}
    assert sorted(begun) == due["datasets"]
    assert name in begun
    alone = not any(job.asset.spec.dataset == name for job in others)  # type: ignore[union-attr]
    assert (begun[name]["rows"], begun[name]["of"], begun[name]["done"]) == (0, None, False)
    assert reported[name]["rows"] == 3
    assert failed[name]["error"] == "a file is missing"
    assert (filled[name]["rows"], filled[name]["error"]) == (7, None)
    assert filled[name]["done"] is alone


def test_a_backfill_that_is_over_has_no_datasets(house: House) -> None:
    commit_id = serve(house, shop_definitions())

    assert progress(house, commit_id) == {}
