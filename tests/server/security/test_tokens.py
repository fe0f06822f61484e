"""Rotating tokens: a successor with the same rights, and an end of the old one."""

import datetime as dt
import hashlib

import pytest
import sqlalchemy as sa

from narthex._base import Backoff
from narthex_ledger import NotFound
from narthex_server.security.known_tokens import KnownTokens
from tests.server.calling import TestClient
from tests.server.conftest import House

pytestmark = pytest.mark.postgres


def holding(house: House, token: str) -> TestClient:
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


def created(house: House, **asked: object) -> dict[str, str]:
    body = {"name": "ci", "scopes": ["author"], "days": 30} | asked
    answer = house.client.post("/api/v1/tokens", json=body)
    assert answer.status_code == 200, answer.text
    made: dict[str, str] = answer.json()
    return made


def rotated(house: House, token_id: str, overlap_s: int = 3_600) -> dict[str, str]:
    answer = house.client.post(f"/api/v1/tokens/{token_id}/rotate", json={"overlap_s": overlap_s})
    assert answer.status_code == 200, answer.text
    made: dict[str, str] = answer.json()
    return made


def accepts(house: House, token: str) -> bool:
    return holding(house, token).get("/api/v1/branch/list").status_code == 200


def listed(house: House, token_id: str) -> dict[str, object]:
    tokens = house.client.get("/api/v1/tokens").json()["tokens"]
    (found,) = (one for one in tokens if one["token_id"] == token_id)
    return dict(found)


def write(house: House, statement: str, **values: object) -> None:
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        assert connection.execute(sa.text(statement), values).rowcount > 0
    engine.dispose()


def test_a_successor_has_the_rights_and_the_lifetime_of_the_token(house: House) -> None:
    old = created(house, branches=["dev", "dev/*"], tags=["finance"])

    new = rotated(house, old["token_id"])

    before, after = (listed(house, one["token_id"]) for one in (old, new))
    for part in ("name", "scopes", "branches", "tags"):
        assert after[part] == before[part]
    lifetime = dt.datetime.fromisoformat(new["expires_at"]) - dt.datetime.fromisoformat(
        str(after["created_at"])
    )
    assert abs(lifetime - dt.timedelta(days=30)) < dt.timedelta(seconds=1)
    assert new["token"] != old["token"]


def test_both_tokens_are_accepted_during_the_overlap(house: House) -> None:
    old = created(house)
    assert accepts(house, old["token"])

    new = rotated(house, old["token_id"])

    assert accepts(house, new["token"])
    assert accepts(house, old["token"])
    assert new["rotated_expires_at"] == listed(house, old["token_id"])["expires_at"]


def test_the_old_token_is_refused_after_the_overlap(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    old = created(house)
    assert accepts(house, old["token"])

    new = rotated(house, old["token_id"], overlap_s=0)

    assert not accepts(house, old["token"])
    assert accepts(house, new["token"])


def test_a_token_that_is_known_is_refused_once_it_has_expired(house: House) -> None:
    """Nobody asks the ledger meanwhile: it may not answer."""
    life = dt.timedelta(seconds=3)
    house.ledger.tokens.put("nx_tests_short", name="short", scopes=("author",), lifetime=life)
    tokens = KnownTokens(ledger=house.ledger, settings=house.services.settings)
    tokens.refresh()

    assert tokens.holder("nx_tests_short") is not None
    polls = Backoff(first_s=0.1, greatest_s=0.2).attempts(within_s=20.0)
    assert any(tokens.known("nx_tests_short") is None for _ in polls)


def test_a_changed_end_of_the_overlap_is_not_accepted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    old = created(house)
    rotated(house, old["token_id"], overlap_s=60)

    write(
        house,
        "UPDATE api_token SET expires_at = now() + interval '20 days' WHERE token_id = :it",
        it=old["token_id"],
    )

    assert not accepts(house, old["token"])


def test_an_overlap_does_not_prolong_a_token(house: House) -> None:
    old = created(house, days=1)
    before = listed(house, old["token_id"])["expires_at"]

    new = rotated(house, old["token_id"], overlap_s=300 * 86_400)

    assert new["rotated_expires_at"] == before


def test_a_token_without_an_expiry_gets_a_successor_of_a_year(house: House) -> None:
    house.ledger.tokens.put("nx_tests000_old", name="old", scopes=("reader",), token_id="old")

    new = rotated(house, "old")

    lifetime = dt.datetime.fromisoformat(new["expires_at"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=364) < lifetime <= dt.timedelta(days=365)


def test_a_token_that_was_inserted_gets_no_successor(house: House) -> None:
    write(
        house,
        "INSERT INTO api_token (token_sha256, token_id, name, scopes, branches, tags)"
        " VALUES (:digest, 'forged', 'mallory', '{admin}', '{*}', '{*}')",
        digest=hashlib.sha256(b"nx_tests000_forged").digest(),
    )

    answer = house.client.post("/api/v1/tokens/forged/rotate", json={})

    assert answer.status_code == 500
    assert "token forged of the ledger is not signed" in answer.json()["err_msg"]
    assert [one.token_id for one in house.ledger.tokens.all()] == ["forged"]


def test_a_token_without_a_right_cannot_rotate_one_that_has_it(house: House) -> None:
    old = created(house, scopes=["admin"])
    house.ledger.tokens.put("nx_only", name="only", scopes=("administer",))

    answer = holding(house, "nx_only").post(f"/api/v1/tokens/{old['token_id']}/rotate", json={})

    assert answer.status_code == 403
    assert len(house.ledger.tokens.all()) == 2


def test_a_revoked_and_an_expired_token_have_no_successor(house: House) -> None:
    revoked, expired = created(house), created(house)
    house.client.delete(f"/api/v1/tokens/{revoked['token_id']}")
    rotated(house, expired["token_id"], overlap_s=0)

    answers = [
        house.client.post(f"/api/v1/tokens/{one['token_id']}/rotate", json={})
        for one in (revoked, expired)
    ]

    assert [answer.status_code for answer in answers] == [409, 409]
    assert "was revoked" in answers[0].json()["err_msg"]
    assert "has expired" in answers[1].json()["err_msg"]
    assert house.client.post("/api/v1/tokens/nobody/rotate", json={}).status_code == 404


def test_the_key_of_a_session_has_no_successor(house: House) -> None:
    house.ledger.tokens.put("nx_session_a", name="session", scopes=(), token_id="session")

    assert house.client.post("/api/v1/tokens/session/rotate", json={}).status_code == 404
    with pytest.raises(NotFound):
        house.ledger.tokens.revoke_by_id("nobody")


def test_a_rotation_is_recorded_without_the_token(house: House) -> None:
    old = created(house)

    new = rotated(house, old["token_id"])

    (*_, entry) = house.ledger.control_log.entries()
    assert isinstance(entry.entry, dict)
    assert entry.entry["path"] == "/tokens/{token_id}/rotate"
    assert entry.entry["of"] == {"token_id": old["token_id"]}
    assert new["token"] not in str(entry.entry)
