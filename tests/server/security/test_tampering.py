"""An attacker with the ledger's database, but without the key, cannot change what runs."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from narthex._ir.entities import Definitions
from narthex_ledger import Ledger, NotSigned, Verifier
from tests.server.commits.test_rollback import listed, without_featuresets
from tests.server.conftest import House
from tests.server.driving import accept, create_all, serve
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def write(house: House, statement: str, **values: Any) -> None:
    """Write the database behind the ledger's back, as its owner could."""
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        for table in ("asset", "deploy_commit", "asset_dep", "manifest", "manifest_binding"):
            connection.execute(sa.text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        changed = connection.execute(sa.text(statement), values)
        assert changed.rowcount > 0
    engine.dispose()


@pytest.fixture
def engines(house: House) -> Iterator[Ledger]:
    """The ledger as a supervisor opens it: it checks, and can sign nothing."""
    settings = house.services.settings
    verifier = Verifier.load(settings.verifying_key)
    ledger = Ledger(settings.ledger_dsn, verifier=verifier)
    yield ledger
    ledger.close()


def bundle_of(house: House, commit_id: str) -> bytes:
    return house.ledger.commits.get(UUID(commit_id)).bundle_sha256


@pytest.mark.parametrize("of", [without_featuresets(), Definitions(datasets=(), featuresets=())])
def test_an_older_bundle_in_the_place_of_a_newer_one_is_not_planned(
    house: House, of: Definitions
) -> None:
    old = serve(house, of)
    new = accept(house.client, shop_definitions())

    write(
        house,
        "UPDATE deploy_commit SET bundle_sha256 = :old WHERE commit_id = :new",
        old=bundle_of(house, old),
        new=new,
    )
    planned = house.client.post(f"/api/v1/commits/{new}/steps/plan")

    assert planned.status_code == 500
    assert (
        f"commit {new} of the ledger differs from the signed content" in planned.json()["err_msg"]
    )


@pytest.mark.parametrize("signed", ["as the old one was", "not at all"])
def test_an_older_bundle_with_its_own_signature_does_not_serve_either(
    house: House, signed: str
) -> None:
    old = serve(house, without_featuresets())
    new = serve(house, shop_definitions())
    before = listed(house)

    signature = house.ledger.commits.get(UUID(old)).signature if signed != "not at all" else None
    write(
        house,
        "UPDATE deploy_commit SET bundle_sha256 = :old, signature = :signature"
        " WHERE commit_id = :new",
        old=bundle_of(house, old),
        signature=signature,
        new=new,
    )

    assert before == ["Buyer"]
    with pytest.raises(NotSigned, match=r"is not signed|differs from the signed content"):
        house.ledger.bundles.of_commit(UUID(new))


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE asset SET spec = CAST(:spec AS jsonb) WHERE kind = 'stream_job'",
        "UPDATE asset SET signature = NULL WHERE kind = 'stream_job'",
        "UPDATE asset SET physical_name = physical_name || '9' WHERE kind = 'kafka_topic'",
        (
            "UPDATE asset a SET spec = b.spec, signature = b.signature FROM asset b"
            " WHERE a.kind = 'stream_job' AND b.kind = a.kind AND a.asset_id <> b.asset_id"
        ),
        "UPDATE asset SET fingerprint = sha256(fingerprint) WHERE kind = 'stream_job'",
    ],
)
def test_engines_refuse_a_job_with_a_changed_spec_or_name(
    house: House, engines: Ledger, tampering: str
) -> None:
    create_all(house.client, accept(house.client, shop_definitions()))
    before = engines.jobs.all()
    spec = {"$": "FeedSpec", "dataset": "Orders"}
    values = {"spec": json.dumps(spec)} if ":spec" in tampering else {}

    write(house, tampering, **values)

    assert before
    with pytest.raises(NotSigned, match="asset nx_tests000_"):
        engines.jobs.all()


def test_no_engine_reads_or_writes_another_asset_than_its_job_was_planned_with(
    house: House, engines: Ledger
) -> None:
    create_all(house.client, accept(house.client, shop_definitions()))
    before = engines.jobs.all()

    write(
        house,
        "UPDATE asset_dep d SET needs_asset_id = other.asset_id FROM asset mine, asset other"
        " WHERE d.role = 'output' AND mine.asset_id = d.needs_asset_id"
        " AND other.kind = mine.kind AND other.asset_id > mine.asset_id",
    )

    assert before
    with pytest.raises(NotSigned, match=r"what asset nx_tests000_\S+ needs of the ledger"):
        engines.jobs.all()


def test_a_job_with_removed_needs_is_not_run(house: House, engines: Ledger) -> None:
    create_all(house.client, accept(house.client, shop_definitions()))

    write(house, "DELETE FROM asset_dep WHERE role = 'output'")

    with pytest.raises(NotSigned, match=r"what asset nx_tests000_\S+ needs of the ledger"):
        engines.jobs.all()


@pytest.mark.parametrize(
    "tampering",
    [
        (
            "UPDATE manifest_binding b SET asset_id = other.asset_id FROM asset mine, asset other"
            " WHERE mine.asset_id = b.asset_id AND mine.kind = 'index'"
            " AND other.kind = mine.kind AND other.asset_id <> mine.asset_id"
        ),
        "UPDATE manifest_binding SET logical_path = logical_path || '9'",
        "DELETE FROM manifest_binding WHERE logical_path LIKE 'dataset/%/history'",
        "UPDATE manifest SET content = jsonb_set(content, '{content}', '{}')",
        "UPDATE manifest SET signature = NULL",
    ],
)
def test_readers_are_not_led_elsewhere_by_a_manifest_that_was_changed(
    house: House, engines: Ledger, tampering: str
) -> None:
    commit_id = serve(house, shop_definitions())

    write(house, tampering)

    with pytest.raises(NotSigned, match=rf"manifest {commit_id} of the ledger (is not|differs)"):
        engines.manifests.get(UUID(commit_id))


def test_readers_are_not_led_to_an_asset_that_was_changed(house: House, engines: Ledger) -> None:
    commit_id = serve(house, shop_definitions())

    write(house, "UPDATE asset SET physical_name = physical_name || '9' WHERE kind = 'index'")

    with pytest.raises(NotSigned, match="asset nx_tests000_"):
        engines.manifests.get(UUID(commit_id))


def test_a_verifier_cannot_sign(house: House, engines: Ledger) -> None:
    commit_id = accept(house.client, shop_definitions())

    assert engines.bundles.of_commit(UUID(commit_id))
    assert engines.bundles.sign(b"mine") == b"mine"
    settings = house.services.settings
    assert settings.verifying_key.read_bytes() != settings.signing_key.read_bytes()
