"""A sandbox that lacks a layer shows on the health page and on each page of the console."""

from pathlib import Path

import attrs
import pytest

from narthex._runtime.workers import Compartments
from narthex_server.app import make_app
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at


def shown(house: House, workers: Compartments) -> tuple[str, str]:
    """Return what the health page and a page of the console show with these workers."""
    services = attrs.evolve(house.services, workers=workers)
    token = house.client.headers["authorization"]
    with workers:
        workers.check()
        client = TestClient(make_app(services), headers={"authorization": token})
        found = client.get("/healthz").json()["sandbox"], client.get("/console/branches").text
        client.close()
    return found


@pytest.mark.postgres
def test_a_reduced_sandbox_shows(tmp_path: Path, ledger_dsn: str) -> None:
    with house_at(
        settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY), adapters=in_memory()
    ) as house:
        health, page = shown(
            house, Compartments(1, is_reduced=True, without=("landlock", "seccomp"))
        )

        assert health == "sandbox: reduced — missing landlock, seccomp"
        assert f'<p class="weakness bad" role="alert">{health}</p>' in page

        health, page = shown(house, Compartments(1, is_reduced=False, without=("landlock",)))

        assert "lacks `landlock`" in health
        assert 'class="weakness bad"' in page
        assert "lacks `landlock`" in page

        health, page = shown(house, Compartments(1, is_reduced=False))

        assert health == "full"
        assert 'class="weakness' not in page
