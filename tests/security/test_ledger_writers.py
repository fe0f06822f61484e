"""An attacker who can write the ledger's database, but has no key of the installation."""

import datetime as dt
import hashlib
import json
from collections.abc import Iterator
from uuid import UUID

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from narthex_ledger import Ledger, NotSigned, Verifier
from tests.server.calling import TestClient
from tests.server.commits.test_rollback import without_featuresets
from tests.server.conftest import House
from tests.server.driving import serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

FORGED = "nx_tests000_forged_token"


@pytest.fixture
def engines(house: House) -> Iterator[Ledger]:
    """The ledger as a supervisor opens it: it checks signatures and cannot sign."""
    settings = house.services.settings
    verifier = Verifier.load(settings.verifying_key)
    ledger = Ledger(settings.ledger_dsn, verifier=verifier)
    yield ledger
    ledger.close()


def write(house: House, statement: str, **values: object) -> None:
    """Write the database behind the server's back, as its owner could."""
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        for table in ("branch", "deploy_commit", "control_log"):
            connection.execute(sa.text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        changed = connection.execute(sa.text(statement), values)
        assert changed.rowcount > 0
    engine.dispose()


def test_a_token_that_was_inserted_is_not_accepted(house: House) -> None:
    write(
        house,
        "INSERT INTO api_token (token_sha256, token_id, name, scopes, branches, tags)"
        " VALUES (:digest, 'forged', 'mallory', '{admin}', '{*}', '{*}')",
        digest=hashlib.sha256(FORGED.encode()).digest(),
    )

    answer = house.client.get("/api/v1/tokens", headers={"authorization": f"Bearer {FORGED}"})

    assert answer.status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE api_token SET scopes = '{admin}'",
        "UPDATE api_token SET branches = '{*}'",
        "UPDATE api_token SET tags = '{*}'",
        "UPDATE api_token SET expires_at = now() + interval '50 years'",
        "UPDATE api_token SET token_sha256 = sha256('nx_tests000_other')",
    ],
)
def test_a_token_whose_rights_were_changed_is_not_accepted(house: House, change: str) -> None:
    token = "nx_tests000_reader"
    house.ledger.tokens.put(
        token,
        name="rita",
        scopes=("reader",),
        branches=("dev",),
        tags=("finance",),
        lifetime=dt.timedelta(days=1),
    )
    assert house.ledger.tokens.get(token) is not None
    write(house, change)

    for shown in (token, "nx_tests000_other"):
        answer = house.client.get(
            "/api/v1/branch/list", headers={"authorization": f"Bearer {shown}"}
        )
        assert answer.status_code == 401


def test_a_revoked_token_stays_out_when_its_revocation_is_erased(house: House) -> None:
    house.ledger.tokens.put("nx_tests000_gone", name="rita", scopes=("admin",))
    house.ledger.tokens.revoke("nx_tests000_gone")
    write(house, "UPDATE api_token SET revoked_at = NULL WHERE name = 'rita'")

    answer = house.client.get(
        "/api/v1/tokens", headers={"authorization": "Bearer nx_tests000_gone"}
    )

    assert answer.status_code == 401


def test_a_branch_cannot_be_pointed_at_the_commit_of_another_branch(house: House) -> None:
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
    dev = TestClient(
        house.client.app, headers=dict(house.client.headers) | {"x-narthex-branch": "dev"}
    )
    serve(house, without_featuresets())
    main = house.ledger.branches.get(house.services.tenant, "main")
    other = house.ledger.branches.get(house.services.tenant, "dev")
    assert dev is not None

    write(
        house,
        "UPDATE branch SET head_commit_id = :commit, serving_commit_id = :commit"
        " WHERE branch_id = :branch",
        commit=main.head_commit_id,
        branch=other.branch_id,
    )

    with pytest.raises(NotSigned, match="as the head of branch `dev` of the ledger"):
        house.ledger.branches.get(house.services.tenant, "dev")


def test_two_branches_cannot_be_renamed_into_each_other(house: House) -> None:
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
    serve(house, shop_definitions())

    write(house, "UPDATE branch SET name = 'old' WHERE name = 'dev'")
    write(house, "UPDATE branch SET name = 'dev' WHERE name = 'main'")

    with pytest.raises(NotSigned, match="as the head of branch `dev` of the ledger"):
        house.ledger.branches.get(house.services.tenant, "dev")


def test_an_offline_query_that_was_inserted_is_not_run(house: House, engines: Ledger) -> None:
    serve(house, shop_definitions())
    manifest = house.ledger.branches.get(house.services.tenant, "main").serving_commit_id
    assert manifest is not None
    mine, forged = UUID(int=1), UUID(int=2)
    house.ledger.offline_queries.submit(mine, manifest_id=manifest, request={"a": 1}, actor="ada")
    write(
        house,
        "INSERT INTO offline_query (request_id, state, manifest_id, pin_id, actor, request,"
        " submitted_at) SELECT :forged, 'queued', manifest_id, pin_id, actor,"
        " '{\"output\": \"/etc/cron.d/x\"}', submitted_at - interval '1 hour'"
        " FROM offline_query WHERE request_id = :mine",
        mine=mine,
        forged=forged,
    )

    taken = engines.offline_queries.claim("engine-1")

    assert taken is not None
    assert taken.request_id == mine
    assert house.ledger.offline_queries.get(forged).state.value == "failed"


def test_an_offline_query_whose_request_was_changed_is_not_run(
    house: House, engines: Ledger
) -> None:
    serve(house, shop_definitions())
    manifest = house.ledger.branches.get(house.services.tenant, "main").serving_commit_id
    assert manifest is not None
    house.ledger.offline_queries.submit(
        UUID(int=1), manifest_id=manifest, request={"output": "answers"}, actor="ada"
    )
    write(house, 'UPDATE offline_query SET request = \'{"output": "/etc/cron.d/x"}\'')

    assert engines.offline_queries.claim("engine-1") is None
    assert house.ledger.offline_queries.get(UUID(int=1)).state.value == "failed"


def test_paths_of_answers_are_not_stored(house: House) -> None:
    serve(house, shop_definitions())
    answer = house.client.post(
        "/api/v1/query_offline",
        json={
            "inputs": ["Buyer.user"],
            "outputs": ["Buyer.spent"],
            "timestamp_column": "at",
            "data": {"Buyer.user": ["ada"], "at": ["2026-01-01T00:00:00Z"]},
        },
    )
    request_id = answer.json()["request_id"]

    stored = json.dumps(house.ledger.offline_queries.get(UUID(request_id)).request)

    assert str(house.services.settings.home / "offline") not in stored
    spine = house.services.settings.home / "offline" / request_id / "spine.parquet"
    assert pq.read_table(spine).num_rows == 1


@pytest.fixture
def logged(house: House) -> House:
    """A server whose control log has four entries."""
    for name in ("one", "two", "three", "four"):
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": name})
    return house


def verdict(house: House) -> tuple[bool, int | None]:
    found = house.client.get("/api/v1/control-log/verify").json()
    return found["whole"], found["broken_at"]


COPIED = """
UPDATE control_log SET entry = (SELECT entry FROM control_log WHERE number = 1)
  WHERE number = 2
"""
BORROWED = """
UPDATE control_log SET signature = (SELECT signature FROM control_log WHERE number = 1)
  WHERE number = 2
"""


@pytest.mark.parametrize(
    ("tampering", "broken_at"),
    [
        # The end is cut off, and the tip is set back: the chain alone is whole.
        (("DELETE FROM control_log WHERE number > 2", "tip to 2"), 3),
        (("DELETE FROM control_log", "tip to 0"), 1),
        # An entry is edited and left, or two are exchanged, or a signature is borrowed.
        (("UPDATE control_log SET entry = '{}' WHERE number = 3",), 3),
        (
            (COPIED,),
            2,
        ),
        ((BORROWED,), 2),
        (("UPDATE control_log SET signature = NULL WHERE number = 4",), 4),
    ],
)
def test_the_control_log_shows_truncation_edits_and_reordering(
    logged: House, tampering: tuple[str, ...], broken_at: int
) -> None:
    assert verdict(logged) == (True, None)

    for statement in tampering:
        if statement.startswith("tip to "):
            number = int(statement.removeprefix("tip to "))
            write(
                logged,
                "UPDATE control_log_tip SET number = :number, sha256 = coalesce((SELECT sha256"
                " FROM control_log WHERE number = :number), decode(repeat('00', 32), 'hex'))",
                number=number,
            )
        else:
            write(logged, statement)

    assert verdict(logged) == (False, broken_at)


def test_a_log_that_was_continued_elsewhere_is_a_fork(logged: House) -> None:
    heads = logged.services.settings.control_log_heads_file
    lines = [json.loads(line) for line in heads.read_text().splitlines()]
    lines[2]["sha256"] = hashlib.sha256(b"another history").hexdigest()
    heads.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert verdict(logged) == (False, 3)
