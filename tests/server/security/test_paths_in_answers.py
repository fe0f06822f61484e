"""No answer of any route has a path of the server's machine; directories are named instead."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
from fastapi.routing import APIRoute

from narthex._base import Json
from narthex._ir.assets import AssetKind
from narthex.settings import Settings
from narthex_ledger import Desired, Phase, ShardReport
from narthex_server.web.path_names import PathNames
from narthex_stores import HistoryAdapter
from tests.server.conftest import House, house_at, in_memory, settings_at
from tests.server.data.test_offline_limits import CALL
from tests.server.driving import SLOTS, accept, serve
from tests.server.security.test_visibility import tagged_shop
from tests.server.shop import shop_definitions

HOME = "/srv/narthex"
SETTINGS = Settings(
    home=Path(HOME),
    install_id="tests000",
    ledger_dsn="",
    kafka="",
    server_url="",
    token="",
    index_dir=Path(HOME, "index"),
    history_dir="s3://bucket/history",
    checkpoint_dir=Path("/srv/narthex-checkpoints"),
    files_root=Path("/data/files"),
    jars_dir=Path(),
)
NAMES = PathNames.of(SETTINGS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"no `{HOME}/offline/1/spine.parquet`", "no `$NARTHEX_HOME/offline/1/spine.parquet`"),
        (f"{HOME}/index/nx_1 is locked", "$NARTHEX_HOME/index/nx_1 is locked"),
        ("s3://bucket/history/nx_1: 403", "$NARTHEX_HISTORY_DIR/nx_1: 403"),
        ("/srv/narthex-checkpoints/nx_1", "$NARTHEX_CHECKPOINT_DIR/nx_1"),
        ("/data/files.", "$NARTHEX_FILES_ROOT."),
        ("/data/files2/x and /srv/narthexes", "/data/files2/x and /srv/narthexes"),
        ("nothing to name", "nothing to name"),
    ],
)
def test_a_path_of_the_server_is_named_by_its_setting(text: str, named: str) -> None:
    assert NAMES.in_text(text) == named


def test_messages_of_an_answer_are_changed_and_its_rows_are_not() -> None:
    answer: Json = {"error": {"of": [f"{HOME}/x"]}, "rows": [{"text": f"{HOME}/x"}], "share": 0.25}

    assert NAMES.in_json(answer) == {
        "error": {"of": ["$NARTHEX_HOME/x"]},
        "rows": [{"text": f"{HOME}/x"}],
        "share": 0.25,
    }


def test_a_page_names_all_paths_and_keeps_other_bytes() -> None:
    page = f"<p>{HOME}/x</p>".encode() + b"\xff"

    assert NAMES.in_body(page, "text/html; charset=utf-8") == b"<p>$NARTHEX_HOME/x</p>\xff"
    assert NAMES.in_body(b"\xff", "text/html") == b"\xff"


@pytest.fixture
def failing(tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str) -> Iterator[House]:
    """A server with failures of each kind, whose errors have a path of its home."""
    home = tmp_path / "home-of-the-server"
    settings = attrs.evolve(
        settings_at(home, dsn=ledger_dsn, kafka=kafka_bootstrap),
        history_dir=str(tmp_path / "elsewhere"),
    )
    adapters = {**in_memory(), AssetKind.HISTORY: HistoryAdapter(history_dir=settings.history_dir)}
    with house_at(settings, adapters=adapters) as house:
        serve(house, tagged_shop())
        fail_everything(house)
        yield house


def fail_everything(house: House) -> None:
    why = f"[Errno 2] no such file: '{house.services.settings.home}/some/file'"
    ledger = house.ledger
    house.client.post("/api/v1/query_offline", json=CALL)
    query = ledger.offline_queries.claim("engine-1")
    assert query is not None
    ledger.offline_queries.fail(query.request_id, query.epoch, error=why)
    jobs = [job for job in ledger.jobs.all() if job.desired is Desired.RUNNING]
    leases = ledger.slots.claim("tests", range(SLOTS))
    epochs = {lease.slot: lease.epoch for lease in leases}
    ledger.jobs.report(
        tuple(
            ShardReport(
                asset_id=job.asset.asset_id,
                shard=shard.shard,
                generation=job.generation,
                epoch=epochs[shard.slot],
                phase=Phase.FAILED,
                progress={"error": why},
            )
            for job in jobs
            for shard in job.shards
            if shard.slot in epochs
        )
    )


def answers(house: House, places: dict[str, str]) -> Iterator[Any]:
    for route in house.client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, APIRoute)
        path = route.path
        for place, value in places.items():
            path = path.replace(place, value)
        for method in route.methods & {"GET"}:
            request_id = places["{request_id}"]
            yield house.client.request(method, path, params={"request_id": request_id})


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.postgres
def test_no_route_answers_with_a_path_of_the_server(failing: House) -> None:
    client, settings = failing.client, failing.services.settings
    commits = client.get("/api/v1/commits").json()["commits"]
    commit_id = str(commits[0]["commit_id"])
    asset = client.get(f"/api/v1/commits/{commit_id}").json()["assets"][0]
    places = {
        "{commit_id}": commit_id,
        "{asset_id}": str(asset["asset_id"]),
        "{name:path}": "Users",
        "{name}": "Users",
        "{request_id}": client.get("/api/v1/offline_queries").json()["queries"][0]["request_id"],
    }

    found = list(answers(failing, places))

    told = [answer.url.path for answer in found if str(settings.home) in answer.text]
    told += [answer.url.path for answer in found if settings.history_dir in answer.text]
    assert told == []
    named = {answer.url.path for answer in found if "$NARTHEX_HOME/some/file" in answer.text}
    assert {"/api/v1/jobs", "/api/v1/offline_queries", "/api/v1/query_offline/status"} <= named
    assert any(path.startswith("/console") for path in named)
    assert sum(answer.status_code == 200 for answer in found) > 30


@pytest.mark.kafka
@pytest.mark.postgres
def test_an_error_of_a_commit_names_no_path_of_the_server(failing: House) -> None:
    home = str(failing.services.settings.home)
    commit_id = accept(failing.client, shop_definitions())
    failing.ledger.commits.abort(
        UUID(commit_id), error={"reason": f"`{home}/x` is full"}, actor="tests"
    )

    answer = failing.client.get(f"/api/v1/commits/{commit_id}")

    assert answer.json()["error"]["detail"] == {"reason": "`$NARTHEX_HOME/x` is full"}
