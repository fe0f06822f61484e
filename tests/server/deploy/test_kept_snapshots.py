"""A server deletes the snapshots of destroyed indexes, and unused environments, by itself."""

import os
import time
from pathlib import Path

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex._runtime.environments import environments_directory
from narthex_server.deploy import recovery
from narthex_stores import Adapter
from tests.server.conftest import NOBODY, house_at, settings_at
from tests.server.driving import accept, create_all
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

WITHIN_S = 60.0


def test_snapshots_of_an_aborted_commit_and_unused_environments_go_and_others_stay(
    tmp_path: Path,
    ledger_dsn: str,
    adapters: dict[AssetKind, Adapter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "AUDIT_EVERY_S", 0.1)
    snapshots = tmp_path / "snapshots"
    environment = environments_directory(tmp_path) / f"{0:064}"
    (environment / "packages").mkdir(parents=True)
    os.utime(environment, (100.0, 100.0))
    settings = attrs.evolve(
        settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY), snapshot_dir=str(snapshots)
    )
    with house_at(settings, adapters=adapters) as house:
        commit_id = accept(house.client, shop_definitions())
        create_all(house.client, commit_id)
        (one, *_) = sorted(house.ledger.gc.inventory(AssetKind.INDEX))
        for name in (one, f"{one}_s0", "nx_elsewhere"):
            (snapshots / name / "20260101T000000.000000Z").mkdir(parents=True)
        house.client.post(f"/api/v1/commits/{commit_id}/cancel")

        house.services.recovery.start()
        ends_at = time.monotonic() + WITHIN_S
        while len(list(snapshots.iterdir())) > 1 or environment.exists():
            assert time.monotonic() < ends_at
            time.sleep(0.1)
        house.services.recovery.stop()

        assert [path.name for path in snapshots.iterdir()] == ["nx_elsewhere"]
