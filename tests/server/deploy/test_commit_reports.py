"""An invalid commit gets all errors at once, and nothing is created."""

import itertools

import pytest

from narthex._ir.assets import AssetKind
from narthex_stores import Adapter, InMemoryAdapter
from tests.server.broken_shop import broken_definitions, changed_definitions
from tests.server.conftest import House
from tests.server.driving import accept, deploy, shown
from tests.server.shop import payload, shop_definitions
from tests.server.unready_shop import unready_definitions

pytestmark = pytest.mark.postgres


def made(adapters: dict[AssetKind, Adapter]) -> list[str]:
    """List the assets in all stores."""
    found = [adapter.list("", timeout_s=1.0) for adapter in adapters.values()]
    return sorted(one.name for one in itertools.chain(*found))


def test_all_mistakes_are_one_report_and_nothing_is_created(
    house: House, adapters: dict[AssetKind, Adapter]
) -> None:
    deploy(house.client, shop_definitions())
    before = made(adapters)
    commits = house.ledger.commits.newest()

    answer = house.client.post("/api/v1/commit", content=payload(broken_definitions()))

    assert answer.status_code == 400
    errors = answer.json()["errors"]
    codes = {error["code"]: error for error in errors}
    assert set(codes) == {"NX202", "NX401", "NX809", "NX807"}
    assert "`amuont`" in codes["NX202"]["message"]
    assert codes["NX202"]["hint"] == "did you mean `amount`?"
    assert "`Unindexed`" in codes["NX809"]["message"]
    assert codes["NX807"]["message"].startswith("dataset `Spend` changed but its version is still")
    for error in errors:
        assert error["file"] == "tests/server/broken_shop.py"
        assert f"--> {error['file']}:{error['line']}" in answer.json()["err_msg"]
    lines = [error["line"] for error in errors]
    assert lines == sorted(lines)
    assert made(adapters) == before
    assert house.ledger.commits.newest() == commits


@pytest.mark.parametrize("preview", ["true", "false"])
def test_unsupported_definitions_are_refused_at_once_and_create_nothing(
    house: House, adapters: dict[AssetKind, Adapter], preview: str
) -> None:
    deploy(house.client, shop_definitions())
    before = made(adapters)
    commits = house.ledger.commits.newest()

    answer = house.client.post(
        "/api/v1/commit", params={"preview": preview}, content=payload(unready_definitions())
    )

    assert answer.status_code == 400
    errors = answer.json()["errors"]
    assert [error["code"] for error in errors] == ["NX901"]
    said = " ".join(error["message"] for error in errors)
    assert "files behind a role of AWS" in said
    assert {error["file"] for error in errors} == {"tests/server/unready_shop.py"}
    assert all(error["hint"] for error in errors)
    assert made(adapters) == before
    assert house.ledger.commits.newest() == commits


def test_a_changed_pipeline_needs_another_version(house: House) -> None:
    deploy(house.client, shop_definitions())

    answer = house.client.post("/api/v1/commit", content=payload(changed_definitions()))

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["code"] == "NX807"
    assert error["message"].endswith("was `0.0`, is `5.0`")
    assert error["hint"] == "raise version to 2"


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xff" * 100])
def test_invalid_commit_bytes_are_refused(house: House, body: bytes) -> None:
    answer = house.client.post("/api/v1/commit", content=body)

    assert answer.status_code == 400
    assert answer.json()["err_msg"]
    assert house.ledger.commits.newest() == ()


def test_a_preview_returns_the_plan_and_changes_nothing(
    house: House, adapters: dict[AssetKind, Adapter]
) -> None:
    answer = house.client.post(
        "/api/v1/commit", params={"preview": "true"}, content=payload(shop_definitions())
    )

    assert answer.status_code == 200, answer.text
    told = answer.json()
    labels = {asset["label"] for asset in told["plan"]["create"]}
    assert {"log of Orders", "index of Spend", "pipeline Spend.by_user"} <= labels
    assert any(line.startswith("+ create") for line in told["summary"])
    assert "* pipeline Spend.by_user: real_time, expressions only" in told["summary"]
    assert house.ledger.commits.newest() == ()
    assert made(adapters) == []
    for adapter in adapters.values():
        assert isinstance(adapter, InMemoryAdapter)
        assert [call for call in adapter.calls if call[1] != ""] == []


def test_a_request_sent_twice_with_one_key_is_one_commit(house: House) -> None:
    first = accept(house.client, shop_definitions(), **{"idempotency-key": "key-of-one-commit"})
    again = accept(house.client, shop_definitions(), **{"idempotency-key": "key-of-one-commit"})

    assert first == again
    assert len(house.ledger.commits.newest()) == 1


def test_a_key_used_for_another_commit_is_refused(house: House) -> None:
    accept(house.client, shop_definitions(), **{"idempotency-key": "key-of-one-commit"})

    answer = house.client.post(
        "/api/v1/commit",
        content=payload(changed_definitions()),
        headers={"idempotency-key": "key-of-one-commit"},
    )

    assert answer.status_code == 409


def test_a_cancelled_commit_that_is_queued_is_rejected(house: House) -> None:
    commit_id = accept(house.client, shop_definitions())

    house.client.post(f"/api/v1/commits/{commit_id}/cancel")

    assert shown(house.client, commit_id)["state"] == "REJECTED"
    answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/plan")
    assert answer.status_code == 410


def test_a_key_that_is_too_short_is_the_callers_mistake(house: House) -> None:
    answer = house.client.post(
        "/api/v1/commit", content=payload(shop_definitions()), headers={"idempotency-key": "k"}
    )

    assert answer.status_code == 400
    assert answer.json()["err_msg"] == "the idempotency key must have 8 to 200 bytes"
