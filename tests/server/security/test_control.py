"""The control plane: tokens, the chained log, secrets and limits."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa

from narthex._base.json_depth import GREATEST_DEPTH, is_deeper
from narthex.settings import environment_of
from narthex_ledger import (
    CommitRequest,
    CommitState,
    Ledger,
    NotOpenedError,
    SealedValues,
    Signer,
    load_sealer,
)
from narthex_server.security.tokens import make_token
from narthex_server.web.request_limits import GREATEST_BODY_BYTES
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from tests.mounted_secrets import mount
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import accept
from tests.server.shop import payload, shop_definitions

pytestmark = pytest.mark.postgres

CANARY = "hunter2-of-the-canary"


def with_token(house: House, **asked: Any) -> TestClient:
    body = {"name": "ada", "scopes": ["author"]} | asked
    made = house.client.post("/api/v1/tokens", json=body)
    assert made.status_code == 200, made.text
    token = made.json()["token"]
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


def everything_stored(house: House) -> str:
    """Return all rows of all tables of the ledger, as text; bytes are in it as they are too."""
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        rows = [
            str(row)
            for table in tables
            for row in connection.execute(
                sa.select(sa.cast(sa.column(table), sa.Text)).select_from(sa.table(table))
            ).scalars()
        ]
    engine.dispose()
    text = "\n".join(rows)
    return text + "".join(
        bytes.fromhex(found).decode("latin-1")
        for found in re.findall(r"\\x((?:[0-9a-f]{2})+)", text)
    )


def change(house: House, statement: str) -> None:
    """Change the database behind the ledger's back, as somebody who owns it could."""
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE control_log DISABLE TRIGGER ALL"))
        connection.execute(sa.text(statement))
    engine.dispose()


def connections_to(dsn: str) -> set[int]:
    """Return the server's numbers of the connections of ledgers to a database."""
    engine = sa.create_engine(dsn, poolclass=sa.NullPool)
    with engine.connect() as connection:
        found = connection.execute(
            sa.text(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'narthex-ledger'"
            )
        )
        return set(found.scalars())


def test_a_token_is_shown_once_and_stored_as_a_hash(house: House) -> None:
    made = house.client.post("/api/v1/tokens", json={"name": "ci", "scopes": ["author"]}).json()

    (listed,) = house.client.get("/api/v1/tokens").json()["tokens"]

    assert made["token"].startswith(f"nx_tests000_{made['token_id']}_")
    assert (listed["name"], listed["scopes"], listed["created_by"]) == (
        "ci",
        ["author"],
        "platform",
    )
    assert listed["expires_at"]
    assert made["token"] not in everything_stored(house)


def test_two_tokens_are_never_alike() -> None:
    made = {make_token("test", "0123") for _ in range(100)}

    assert len(made) == 100
    assert min(map(len, made)) > 50


def test_an_author_may_commit_on_the_branches_that_are_theirs_and_no_others(house: House) -> None:
    for name in ("dev/ada", "dev/bob"):
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": name})
    ada = with_token(house, branches=["dev/ada*"])
    bobs = accept(house.client, shop_definitions(), **{"x-narthex-branch": "dev/bob"})

    mine = accept(ada, shop_definitions(), **{"x-narthex-branch": "dev/ada"})
    refused = [
        ada.get("/api/v1/commits", headers={"x-narthex-branch": name})
        for name in ("main", "dev/bob", "nowhere")
    ]
    of_bob = ada.get(f"/api/v1/commits/{bobs}", headers={"x-narthex-branch": "dev/ada"})
    missing = ada.get(
        "/api/v1/commits/00000000-0000-8000-8000-000000000000",
        headers={"x-narthex-branch": "dev/ada"},
    )

    shown = ada.get(f"/api/v1/commits/{mine}", headers={"x-narthex-branch": "dev/ada"})
    assert (shown.status_code, shown.json()["actor"]) == (200, "ada")
    assert {answer.status_code for answer in (*refused, of_bob, missing)} == {403}
    assert len({answer.text for answer in (*refused, of_bob, missing)}) == 1


def test_a_token_cannot_act_for_another_one(house: House) -> None:
    ada = with_token(house)

    mine = accept(ada, shop_definitions(), **{"x-narthex-actor": "the chief"})

    assert house.client.get(f"/api/v1/commits/{mine}").json()["actor"] == "ada"


def test_a_token_ends_when_it_is_revoked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    ada = with_token(house)
    before = ada.get("/api/v1/branch/list").status_code
    token_id = house.client.get("/api/v1/tokens").json()["tokens"][0]["token_id"]

    gone = house.client.delete(f"/api/v1/tokens/{token_id}")

    assert (before, gone.status_code) == (200, 200)
    assert ada.get("/api/v1/branch/list").status_code == 401
    assert house.client.delete("/api/v1/tokens/nobody").status_code == 404


@pytest.mark.parametrize(
    "asked",
    [
        {"scopes": ["root"]},
        {"scopes": []},
        {"scopes": ["reader"], "days": 366},
        {"scopes": ["reader"], "days": 0},
        {"scopes": ["reader"], "branches": []},
    ],
)
def test_a_token_that_cannot_be_is_refused(house: House, asked: Any) -> None:
    assert house.client.post("/api/v1/tokens", json={"name": "x"} | asked).status_code == 400


def test_each_change_of_the_control_plane_is_logged_with_actor_and_outcome(
    house: House,
) -> None:
    reader = with_token(house, name="rita", scopes=["reader"])
    reader.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
    house.client.get("/api/v1/branch/list")

    entries = [one["entry"] for one in house.client.get("/api/v1/control-log").json()["entries"]]

    assert [(one["who"], one["verb"], one["path"], one["status"]) for one in entries] == [
        ("platform", "POST", "/tokens", 200),
        ("platform", "POST", "/init", 200),
        ("rita", "POST", "/init", 403),
    ]
    assert house.client.get("/api/v1/control-log/verify").json() == {
        "whole": True,
        "broken_at": None,
        "why": None,
        "entries_shipped": 3,
    }


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE control_log SET entry = jsonb_set(entry, '{who}', '\"nobody\"') WHERE number = 2",
        "UPDATE control_log SET at = at + interval '1 second' WHERE number = 2",
        "DELETE FROM control_log WHERE number = 2",
    ],
)
def test_the_log_shows_where_it_was_tampered_with(house: House, tampering: str) -> None:
    for name in ("one", "two", "three"):
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": name})

    change(house, tampering)

    found = house.client.get("/api/v1/control-log/verify").json()

    assert (found["whole"], found["broken_at"]) == (False, 2)


def test_a_truncated_log_fails_verification(house: House) -> None:
    for name in ("one", "two"):
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": name})

    change(house, "DELETE FROM control_log WHERE number = 2")

    assert house.client.get("/api/v1/control-log/verify").json()["broken_at"] == 2


def test_an_attacker_without_the_key_cannot_add_definitions(house: House, tmp_path: Path) -> None:
    main = house.ledger.branches.get(house.services.tenant, "main")
    commit_id, body = UUID(int=7), payload(shop_definitions())
    intruder = Ledger(
        house.services.settings.ledger_dsn, signer=Signer.load(tmp_path / "another.key")
    )
    intruder.commits.accept(
        CommitRequest(
            commit_id=commit_id,
            tenant=main.tenant_id,
            branch=main.branch_id,
            idempotency_key="of an intruder",
            request_sha256=hashlib.sha256(body).digest(),
            actor="intruder",
            bundle=intruder.bundles.sign(body),
        )
    )
    intruder.close()

    planned = house.client.post(f"/api/v1/commits/{commit_id}/steps/plan")

    assert planned.status_code == 500
    assert "signed by another key" in planned.json()["err_msg"]
    assert house.ledger.commits.get(commit_id).state is CommitState.QUEUED
    assert house.ledger.jobs.all() == ()


def everything_below(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def test_a_secret_can_be_stored_changed_read_and_deleted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    author = with_token(house)
    path = "/api/v1/secret/chat"

    kept = house.client.post(path, json={"value": "one"})
    again = house.client.post(path, json={"value": "other"})
    read = house.client.get(path).json()
    changed = house.client.patch(path, json={"value": CANARY}).json()
    refused = author.get(path)
    stored = everything_stored(house)
    for variable, value in environment_of(house.services.settings).items():
        monkeypatch.setenv(variable, value)
    jobs = AuthorSecrets.of(house.services.settings)
    to_jobs = jobs("chat")
    at_rest = everything_below(house.services.settings.home)
    answer = house.client.get(path).json()
    gone = house.client.delete(path)

    assert (kept.status_code, again.status_code) == (200, 409)
    assert (read, answer) == ({"value": "one"}, {"value": CANARY})
    assert (changed["name"], changed["version"]) == ("chat", 2)
    assert 'name = "chat"' in changed["hint"]
    assert refused.status_code == 403
    assert CANARY not in stored
    assert CANARY.encode() not in at_rest
    assert gone.status_code == 200
    assert house.client.get(path).status_code == 404
    assert (to_jobs, jobs("chat")) == (CANARY, None)
    assert house.client.post("/api/v1/secret/-x", json={"value": "x"}).status_code == 400


def test_a_job_without_the_key_of_the_installation_opens_nothing(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.client.post("/api/v1/secret/bus/word", json={"value": CANARY})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    for variable, value in environment_of(house.services.settings).items():
        monkeypatch.setenv(variable, value)

    jobs = AuthorSecrets(home=elsewhere, mounted="", policy_file=elsewhere / "policy.toml")
    with pytest.raises(NotOpenedError, match="copy it from the server's machine"):
        jobs("bus/word")
    load_sealer(elsewhere / "secrets.key")
    with pytest.raises(NotOpenedError, match="sealed by another key"):
        jobs("bus/word")


def test_a_job_opens_the_ledger_once_for_all_its_secrets(
    tmp_path: Path, ledger_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    load_sealer(settings.secrets_key)
    ledger = Ledger(ledger_dsn)
    sealed = SealedValues.secrets(ledger, settings.secrets_key)
    for name in ("bus/word", "chat"):
        sealed.add(name, CANARY, actor="ada")
    before = connections_to(ledger_dsn)
    for variable, value in environment_of(settings).items():
        monkeypatch.setenv(variable, value)

    first = AuthorSecrets.of(settings)("bus/word"), connections_to(ledger_dsn) - before
    second = AuthorSecrets.of(settings)("chat"), connections_to(ledger_dsn) - before
    ledger.close()

    assert first == second == (CANARY, second[1])
    assert len(second[1]) == 1


def test_mounted_secrets_are_not_stored_in_the_ledger(tmp_path: Path, ledger_dsn: str) -> None:
    mounted = tmp_path / "mounted"
    mount(mounted, {"bus/word": CANARY})
    settings = attrs.evolve(
        settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY), secrets_dir=str(mounted)
    )
    with house_at(settings, adapters=in_memory()) as house:
        kept = house.client.post("/api/v1/secret/bus/word", json={"value": "another"})
        names = house.client.get("/api/v1/secrets").json()

    assert (kept.status_code, names) == (409, {"secrets": []})
    assert AuthorSecrets.of(settings)("bus/word") == CANARY


def test_a_secret_is_in_no_refusal(house: House) -> None:
    said = [
        house.client.post("/api/v1/secret/chat", json={"value": [CANARY]}),
        house.client.post("/api/v1/secret/chat", json={"values": CANARY}),
        house.client.post("/api/v1/secret/chat", content=CANARY.encode()),
    ]

    assert [answer.status_code for answer in said] == [400, 400, 400]
    assert not [answer.text for answer in said if CANARY in answer.text]


def test_a_sealed_value_opens_only_where_it_belongs_and_by_its_key(tmp_path: Path) -> None:
    sealer, other = load_sealer(tmp_path / "key"), load_sealer(tmp_path / "other")
    sealed = sealer.seal(CANARY, about="acme\nchat\n1")

    assert load_sealer(tmp_path / "key").open(sealed, about="acme\nchat\n1") == CANARY
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert CANARY not in str(sealed)
    for opener, about in (
        (sealer, "acme\nchat\n2"),
        (sealer, "b\nchat\n1"),
        (other, "acme\nchat\n1"),
    ):
        with pytest.raises(NotOpenedError):
            opener.open(sealed, about=about)


def test_a_request_that_is_too_large_too_deep_or_packed_is_refused(house: House) -> None:
    deep = b"[" * (GREATEST_DEPTH + 1) + b"]" * (GREATEST_DEPTH + 1)
    as_json = {"content-type": "application/json"}

    large = house.client.post("/api/v1/log", content=b" " * (GREATEST_BODY_BYTES + 1))
    nested = house.client.post("/api/v1/log", content=deep, headers=as_json)
    packed = house.client.post(
        "/api/v1/log", content=b"{}", headers=as_json | {"content-encoding": "gzip"}
    )
    streamed = house.client.post(
        "/api/v1/log", content=iter([b" " * (GREATEST_BODY_BYTES // 2)] * 3)
    )

    assert [a.status_code for a in (large, nested, packed, streamed)] == [413, 400, 415, 413]


@pytest.mark.parametrize(
    ("body", "deeper"),
    [
        (b"[[]]", False),
        (b"[[[]]]", True),
        (b'{"a": [{}]}', True),
        (b'{"a": {"b": 1}}', False),
        (b'"[[[["', False),
        (b'["\\"[[["]', False),
        (b"[[[[[[", True),
        (b"", False),
    ],
)
def test_depth_is_counted_outside_texts(body: bytes, deeper: bool) -> None:
    assert is_deeper(body, 2) is deeper


@pytest.mark.slow
def test_the_server_is_made_without_what_unpickles() -> None:
    """Its modules load with the libraries barred, and nothing is unpickled on the way."""
    code = (
        "import sys\n"
        "class Barred:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'cloudpickle', 'dill', 'joblib', 'shelve'}:\n"
        "            raise ImportError(name)\n"
        "def refuse(event, arguments):\n"
        "    if event == 'pickle.find_class':\n"
        "        raise AssertionError(arguments)\n"
        "sys.meta_path.insert(0, Barred())\n"
        "sys.addaudithook(refuse)\n"
        "import narthex_server.__main__, narthex_ledger\n"
        "print('made')\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert made.stdout == "made\n", made.stderr
