"""Rotating the keys of an installation while its server and its engines run."""

import datetime as dt
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from narthex_ledger import (
    SIGNED_KINDS,
    ErasureRequest,
    KeyFileError,
    Ledger,
    NotOpenedError,
    NotSigned,
    SealedValues,
    Signer,
    TrainingSetView,
    Verifier,
    load_sealer,
)
from narthex_server.erasures.erased_rows import Digests
from narthex_server.erasures.erased_stores import about
from narthex_server.security.key_rotation import RETIRE_AFTER_S, Keys
from tests.server.calling import TestClient
from tests.server.commits.test_rollback import without_featuresets
from tests.server.conftest import House, house_at, in_memory
from tests.server.driving import serve
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

QUERY, SET, ERASURE, ERASING = (UUID(int=number) for number in range(1, 5))
CERTIFICATE = {"erasure_id": str(ERASURE), "dataset": "Gone", "found": 0}
READER = "nx_tests000_reader"
SIGNING_STEPS = ("created", "announced", "switched", *(f"signed {one}" for one in SIGNED_KINDS))
SEALING_STEPS = ("announced", "switched", "sealed secret", "sealed connection", "sealed erasure")


class DiedHereError(Exception):
    """The process that rotates died here."""


@attrs.define
class DiesAt:
    """Ends a rotation after one of its steps."""

    name: str

    def __call__(self, name: str) -> None:
        if name == self.name:
            raise DiedHereError(name)


@pytest.fixture
def filled(house: House) -> House:
    """A server whose ledger has rows of every signed kind."""
    ledger, tenant = house.ledger, house.services.tenant
    serve(house, without_featuresets())
    commit_id = UUID(serve(house, shop_definitions()))
    house.client.post("/api/v1/branch/dev/clone", json={"clone_from": "main"})
    ledger.tokens.put(READER, name="rita", scopes=("reader",), branches=("main",))
    ledger.offline_queries.submit(QUERY, manifest_id=commit_id, request={"a": 1.0}, actor="ada")
    ledger.training_sets.store(
        TrainingSetView(
            training_set_id=SET,
            branch="main",
            name="fraud",
            request_id=QUERY,
            commit_id=commit_id,
            content_sha256=bytes(32),
            data_sha256=bytes(32),
            rows=1,
            description={"columns": []},
            created_at=dt.datetime.now(dt.UTC),
        )
    )
    signature = Signer.load(house.services.settings.signing_key).attest(["erasure", CERTIFICATE])
    write(
        house,
        "INSERT INTO erasure (erasure_id, tenant_id, branch, dataset, fields, actor,"
        " request_sha256, state, digests, certificate, signature, finished_at)"
        " VALUES (:it, :tenant, 'main', 'Gone', '{user}', 'ada', sha256('x'), 'certified',"
        " ARRAY[sha256('y')], CAST(:certificate AS jsonb), :signature, now())",
        it=ERASURE,
        tenant=tenant,
        certificate=json.dumps(CERTIFICATE),
        signature=signature,
    )
    return house


@pytest.fixture
def engines(house: House) -> Iterator[Ledger]:
    """The ledger as a process opens it that runs before and after a rotation."""
    settings = house.services.settings
    verifier = Verifier.load(settings.verifying_key)
    ledger = Ledger(settings.ledger_dsn, verifier=verifier)
    yield ledger
    ledger.close()


def write(house: House, statement: str, **values: object) -> None:
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        for table in ("bundle", "manifest", "training_set", "erasure", "control_log"):
            connection.execute(sa.text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        assert connection.execute(sa.text(statement), values).rowcount > 0
        for table in ("bundle", "manifest", "training_set", "erasure", "control_log"):
            connection.execute(sa.text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))
    engine.dispose()


def keys_of(house: House, *, dies_at: str = "", later: bool = True) -> Keys:
    """Return the commands' keys, at a time when a replaced key may be retired."""
    shift = dt.timedelta(seconds=RETIRE_AFTER_S + 1 if later else 0)
    return Keys(
        settings=house.services.settings,
        step=DiesAt(dies_at),
        clock=lambda: dt.datetime.now(dt.UTC) + shift,
    )


def everything_is_read(house: House, engines: Ledger) -> None:
    """Read rows of every kind, as the server and as an engine that checks signatures."""
    for ledger in (house.ledger, engines):
        branch = ledger.branches.get(house.services.tenant, "main")
        commit_id = branch.serving_commit_id
        assert commit_id is not None
        assert ledger.bundles.of_commit(commit_id)
        assert ledger.manifests.get(commit_id).bindings
        assert ledger.jobs.all()
        token = ledger.tokens.get(READER)
        assert token is not None
        assert token.name == "rita"
        assert ledger.training_sets.get("main", "fraud").rows == 1
        assert ledger.control_log.verify({}) is None
    reader = TestClient(house.client.app, headers={"authorization": f"Bearer {READER}"})
    assert reader.get("/api/v1/branch/list").status_code == 200
    assert house.client.get("/api/v1/control-log/verify").json()["whole"] is True


def rows_by_state(house: House, purpose: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for key in keys_of(house).all():
        if key.purpose == purpose:
            found[key.state] = found.get(key.state, 0) + sum(key.rows.values())
    return found


def test_every_signed_kind_is_signed_again(filled: House, engines: Ledger) -> None:
    before = filled.ledger.signatures.count()
    assert set(SIGNED_KINDS) == {kind for kind, rows in before.items() if rows}

    done = keys_of(filled).rotate_signing()

    after = filled.ledger.signatures.count()
    new, (old,) = bytes.fromhex(done.key_id), map(bytes.fromhex, done.old)
    assert all(set(rows) == {old} for rows in before.values())
    assert after == {kind: {new: rows[old]} for kind, rows in before.items()}
    assert done.renewed == {kind: rows[old] for kind, rows in before.items()}
    assert done.refused == ()
    everything_is_read(filled, engines)


def test_a_rotation_is_completed_wherever_it_was_interrupted(
    filled: House, engines: Ledger
) -> None:
    first = filled.ledger.signatures.count()

    for step in SIGNING_STEPS:
        with pytest.raises(DiedHereError, match=step):
            keys_of(filled, dies_at=step).rotate_signing()
        everything_is_read(filled, engines)
    done = keys_of(filled).rotate_signing()
    again = keys_of(filled).rotate_signing()

    assert again == attrs.evolve(done, renewed={})
    assert len(done.old) == 1
    (old,) = {key for rows in first.values() for key in rows}
    assert done.old == (old.hex(),)
    for rows in filled.ledger.signatures.count().values():
        assert set(rows) == {bytes.fromhex(done.key_id)}
    everything_is_read(filled, engines)
    keys_of(filled).retire(done.old[0])
    everything_is_read(filled, engines)


def test_a_transaction_that_fails_between_batches_is_completed(
    filled: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_ledger.security.signature_api._BATCH", 1)
    real, calls = Signer.attest, 0

    def failing(self: Signer, statement: object) -> bytes:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise DiedHereError
        return real(self, statement)  # type: ignore[arg-type]

    monkeypatch.setattr(Signer, "attest", failing)
    interrupted = 0
    while interrupted < 100:
        try:
            keys_of(filled).rotate_signing()
        except DiedHereError:
            interrupted += 1
            continue
        break

    monkeypatch.setattr(Signer, "attest", real)
    assert interrupted > 2
    current = Signer.load(filled.services.settings.signing_key).public.key_id
    for rows in filled.ledger.signatures.count().values():
        assert set(rows) == {current}


def test_a_running_server_signs_with_the_new_key(filled: House, engines: Ledger) -> None:
    done = keys_of(filled).rotate_signing()
    keys_of(filled).retire(done.old[0])

    made = filled.client.post("/api/v1/tokens", json={"name": "ci", "scopes": ["author"]}).json()
    serve(filled, without_featuresets())

    assert engines.tokens.get(made["token"]) is not None
    everything_is_read(filled, engines)
    assert rows_by_state(filled, "signing").keys() == {"current", "retired"}
    assert rows_by_state(filled, "signing")["retired"] == 0


def test_a_server_starts_at_every_step_of_a_rotation(filled: House, engines: Ledger) -> None:
    settings = filled.services.settings
    for step in ("created", "announced", "switched", "signed asset"):
        with pytest.raises(DiedHereError):
            keys_of(filled, dies_at=step).rotate_signing()
        with house_at(settings, adapters=in_memory()) as other:
            everything_is_read(other, engines)


def test_a_retired_key_signs_nothing_that_is_accepted(filled: House, engines: Ledger) -> None:
    settings = filled.services.settings
    stolen = Signer(Ed25519PrivateKey.from_private_bytes(settings.signing_key.read_bytes()))
    columns = {
        "bundle": ["signature"],
        "deploy_commit": ["signature", "head_signature"],
        "manifest": ["signature"],
        "asset": ["signature", "needs_signature"],
        "api_token": ["signature"],
        "offline_query": ["signature"],
        "training_set": ["signature"],
        "erasure": ["signature"],
        "control_log": ["signature"],
    }
    for table in columns:
        write(filled, f"CREATE TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608
    done = keys_of(filled).rotate_signing()
    old = bytes.fromhex(done.old[0])
    keys_of(filled).retire(done.old[0])
    keys = {
        "bundle": "sha256",
        "deploy_commit": "commit_id",
        "manifest": "manifest_id",
        "asset": "asset_id",
        "api_token": "token_sha256",
        "offline_query": "request_id",
        "training_set": "training_set_id",
        "erasure": "erasure_id",
        "control_log": "number",
    }

    # The signatures of the old key over the same rows: what its holder could make.
    for table, names in columns.items():
        changed, key = ", ".join(f"{name} = o.{name}" for name in names), keys[table]
        to_old = f"UPDATE {table} t SET {changed} FROM old_{table} o WHERE t.{key} = o.{key}"  # noqa: S608
        write(filled, to_old)
    forged = "nx_tests000_forged"
    digest = hashlib.sha256(forged.encode()).digest()
    statement = ["token", digest.hex(), "f", "mallory", ["admin"], ["*"], ["*"], "mallory", None]
    write(
        filled,
        "INSERT INTO api_token (token_sha256, token_id, name, scopes, branches, tags, created_by,"
        " signature) VALUES (:digest, 'f', 'mallory', '{admin}', '{*}', '{*}', 'mallory', :by)",
        digest=digest,
        by=stolen.attest(statement),
    )

    stolen.verifier.check(statement, stolen.attest(statement), what="it")
    assert set(filled.ledger.signatures.count()["token"]) == {old}
    for kind in SIGNED_KINDS:
        assert engines.signatures.valid(kind, by=(old,)).rows == 0
    for ledger in (filled.ledger, engines):
        for read in (
            lambda of=ledger: of.branches.get(filled.services.tenant, "main"),
            lambda of=ledger: of.jobs.all(),
            lambda of=ledger: of.tokens.get(forged),
            lambda of=ledger: of.tokens.get(READER),
            lambda of=ledger: of.training_sets.get("main", "fraud"),
            lambda of=ledger: of.erasures.verify(CERTIFICATE, stolen.attest(["erasure"])),
        ):
            with pytest.raises(NotSigned, match="signed by another key"):
                read()
        broken = ledger.control_log.verify({})
        assert broken is not None
        assert broken.why == "not signed by this installation"
    answer = TestClient(filled.client.app, headers={"authorization": f"Bearer {forged}"}).get(
        "/api/v1/tokens"
    )
    assert answer.status_code == 401


def test_a_row_that_does_not_match_is_not_signed_again(filled: House) -> None:
    write(filled, "UPDATE api_token SET scopes = '{admin}' WHERE name = 'rita'")

    done = keys_of(filled).rotate_signing()

    (refused,) = done.refused
    assert refused.startswith("token ")
    with pytest.raises(NotSigned):
        filled.ledger.tokens.get(READER)
    keys_of(filled).retire(done.old[0])


def test_a_key_that_has_signed_something_is_not_retired(filled: House) -> None:
    with pytest.raises(DiedHereError):
        keys_of(filled, dies_at="signed bundle").rotate_signing()
    (old,) = (key for key in keys_of(filled).all() if key.state == "old")

    with pytest.raises(
        KeyFileError, match=r"has signed \d+ rows, such as commit .*sign them again"
    ):
        keys_of(filled).retire(old.key_id)

    keys_of(filled).rotate_signing()
    keys_of(filled).retire(old.key_id)
    with pytest.raises(KeyFileError, match="no key has the id"):
        keys_of(filled).retire(old.key_id)


def test_a_key_is_not_retired_while_it_may_still_be_used(filled: House) -> None:
    current = next(key for key in keys_of(filled).all() if key.purpose == "signing")

    with pytest.raises(KeyFileError, match="is the current key"):
        keys_of(filled).retire(current.key_id)
    with pytest.raises(DiedHereError):
        keys_of(filled, dies_at="announced").rotate_signing()
    with pytest.raises(KeyFileError, match="a rotation is not complete"):
        keys_of(filled).retire(current.key_id)
    keys_of(filled).rotate_signing()
    with pytest.raises(KeyFileError, match="less than 60 s ago"):
        keys_of(filled, later=False).retire(current.key_id)


def test_an_announced_key_is_accepted_before_it_signs(filled: House, engines: Ledger) -> None:
    first = keys_of(filled).rotate_signing(announce=True)

    ring = Verifier.load(filled.services.settings.verifying_key)
    assert first.is_announced
    assert [key.key_id.hex() for key in ring.ring.keys] == [*first.old, first.key_id]
    assert rows_by_state(filled, "signing").keys() == {"current", "upcoming"}
    everything_is_read(filled, engines)
    assert keys_of(filled).rotate_signing().key_id == first.key_id


def test_a_certificate_stays_valid_after_its_key_is_retired(filled: House) -> None:
    settings = filled.services.settings
    stolen = Signer(Ed25519PrivateKey.from_private_bytes(settings.signing_key.read_bytes()))
    shown = stolen.attest(["erasure", CERTIFICATE])
    forged = CERTIFICATE | {"found": 1}

    done = keys_of(filled).rotate_signing()
    keys_of(filled).retire(done.old[0])

    filled.ledger.erasures.verify(CERTIFICATE, shown)
    for certificate, signature in (
        (forged, stolen.attest(["erasure", forged])),
        (CERTIFICATE, stolen.attest(["erasure", forged])),
        (CERTIFICATE, Signer(Ed25519PrivateKey.generate()).attest(["erasure", CERTIFICATE])),
    ):
        with pytest.raises(NotSigned):
            filled.ledger.erasures.verify(certificate, signature)


def test_the_commands_say_that_they_need_the_servers_files(house: House, tmp_path: Path) -> None:
    elsewhere = attrs.evolve(house.services.settings, home=tmp_path / "elsewhere")

    for act in (
        Keys(settings=elsewhere).rotate_signing,
        Keys(settings=elsewhere).rotate_secrets,
        Keys(settings=elsewhere).all,
        lambda: Keys(settings=elsewhere).retire("ab"),
    ):
        with pytest.raises(KeyFileError, match="run this command on the server's machine"):
            act()
    assert not elsewhere.signing_key.exists()


def test_a_key_that_the_ring_does_not_have_keeps_the_server_from_starting(house: House) -> None:
    settings = house.services.settings
    settings.signing_key.unlink()
    Signer.load(settings.signing_key)

    with (
        pytest.raises(KeyFileError, match="does not have the public half"),
        house_at(settings, adapters=in_memory()),
    ):
        pass


@pytest.fixture
def sealed(house: House) -> House:
    """A server with sealed values of every kind, and a blocked key."""
    services = house.services
    services.secrets.add("stripe", "sk-1", actor="ada")
    services.secrets.add("other", "sk-2", actor="ada")
    services.connections.add("warehouse", '{"url": "x"}', actor="ada")
    digest = Digests.of(services.sealer).of_key("Orders", {"user": "ann"})
    house.ledger.erasures.request(
        ErasureRequest(
            tenant=services.tenant,
            erasure_id=ERASING,
            branch="main",
            dataset="Orders",
            fields=("user",),
            actor="ada",
            request_sha256=bytes(32),
            sealed=services.sealer.seal('["ann"]', about=about(ERASING)),
            digests=(digest,),
            sources=(),
        )
    )
    return house


def values_of(house: House) -> tuple[str, ...]:
    """Read all sealed values: as the running server, and as a job that opens the key anew."""
    services = house.services
    erasure = house.ledger.erasures.get(ERASING)
    fresh = load_sealer(services.settings.secrets_key)
    as_job = SealedValues.secrets(house.ledger, services.settings.secrets_key)
    assert as_job.read("stripe") == services.secrets.read("stripe")
    assert fresh.open(erasure.sealed, about=about(ERASING)) == '["ann"]'
    return (
        services.secrets.read("stripe"),
        services.secrets.read("other"),
        services.connections.read("warehouse"),
        services.sealer.open(erasure.sealed, about=about(ERASING)),
    )


VALUES = ("sk-1", "sk-2", '{"url": "x"}', '["ann"]')


def test_a_rotation_of_the_secrets_key_is_completed_wherever_it_was_interrupted(
    sealed: House,
) -> None:
    path = sealed.services.settings.secrets_key
    stolen = path.read_bytes()
    for step in SEALING_STEPS:
        with pytest.raises(DiedHereError, match=step):
            keys_of(sealed, dies_at=step).rotate_secrets()
        assert values_of(sealed) == VALUES

    done = keys_of(sealed).rotate_secrets()

    assert done.renewed == {}
    assert rows_by_state(sealed, "secrets") == {"current": 4, "old": 0}
    keys_of(sealed).retire(done.old[0])
    assert values_of(sealed) == VALUES
    assert rows_by_state(sealed, "secrets") == {"current": 4}
    path.write_bytes(stolen)
    with pytest.raises(NotOpenedError, match="by another key"):
        SealedValues.secrets(sealed.ledger, path).read("stripe")


def test_a_running_server_seals_with_the_new_key(sealed: House) -> None:
    done = keys_of(sealed).rotate_secrets()

    sealed.services.secrets.change("stripe", "sk-9", actor="ada")

    assert done.renewed == {"secret": 2, "connection": 1, "erasure": 1}
    keys_of(sealed).retire(done.old[0])
    assert sealed.services.secrets.read("stripe") == "sk-9"
    assert sealed.ledger.secrets.get(sealed.services.tenant, "stripe").version == 2


def test_a_key_that_has_sealed_something_is_not_retired(sealed: House) -> None:
    with pytest.raises(DiedHereError):
        keys_of(sealed, dies_at="sealed secret").rotate_secrets()
    (old,) = (key for key in keys_of(sealed).all() if key.state == "old")

    with pytest.raises(KeyFileError, match="1 of the kind connection, 1 of the kind erasure"):
        keys_of(sealed).retire(old.key_id)


def test_blocked_keys_stay_blocked_when_the_secrets_key_is_rotated(sealed: House) -> None:
    services = sealed.services
    before = Digests.of(services.sealer).of_key("Orders", {"user": "ann"})

    for _ in range(2):
        done = keys_of(sealed).rotate_secrets()
        keys_of(sealed).retire(done.old[0])

    for sealer in (services.sealer, load_sealer(services.settings.secrets_key)):
        digest = Digests.of(sealer).of_key("Orders", {"user": "ann"})
        assert digest == before
        found = sealed.ledger.erasures.blocked(services.tenant, "Orders", [digest])
        assert found == {digest}


def test_two_commands_do_not_change_the_keys_at_once(house: House) -> None:
    def other(_name: str) -> None:
        with pytest.raises(KeyFileError, match="another command changes the keys"):
            keys_of(house).rotate_secrets()

    Keys(settings=house.services.settings, step=other).rotate_signing()
