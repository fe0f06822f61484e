"""A person commits a project with the form in Airflow: from a folder, and from a Git repository."""

import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from narthex.client import Client
from narthex.errors import NarthexError
from tests.acceptance.platform import COMMIT_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

FEATURES = '''"""Lamps, which are counted."""

from datetime import datetime

from rooms import WINDOW
from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "lamps@narthex.dev"


@source(Webhook("lamps").endpoint("{endpoint}"), disorder="1d", cdc="append")
@dataset
class Lamps:
    room: str
    at: datetime


@dataset(index=True)
class Lights:
    room: str = field(key=True)
    lamps: int
    at: datetime

    @pipeline
    @inputs(Lamps)
    def by_room(cls, rows):
        return rows.groupby("room").aggregate(lamps=Count(window=Continuous(WINDOW)))


@featureset
class Room:
    room: str
    lamps: int = feature(Lights.lamps, default={unknown})
'''
ROOMS = 'WINDOW = "forever"\n'
WITH_MISTAKES = """from datetime import datetime

from narthex.datasets import dataset
from narthex.featuresets import featureset

__owner__ = "lamps@narthex.dev"


@dataset
class Lamps:
    room: complex
    at: datetime


@featureset
class Room:
    room: object
"""


def write_project(folder: Path, *, endpoint: str, unknown: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = FEATURES.replace("{endpoint}", endpoint).replace("{unknown}", str(unknown))
    (folder / "features.py").write_text(text)
    (folder / "rooms.py").write_text(ROOMS)


def log_of(platform: Platform, run_id: str, task: str, *, tries: int = 1) -> str:
    path = f"dags/commit/dagRuns/{run_id}/taskInstances/{task}/logs/{tries}"
    content: list[Any] = platform.airflow("GET", path)["content"]
    return "\n".join(str(line["event"]) if isinstance(line, dict) else line for line in content)


def unknown(client: Client) -> object:
    """Query a room without lamps; None if no commit serves."""
    try:
        answers, _ = client.query_columns(["Room.room"], ["Room.lamps"], {"Room.room": ["none"]})
    except NarthexError:
        return None
    return answers["Room.lamps"][0]


def commits(client: Client) -> list[dict[str, Any]]:
    found = client.read("commits")["commits"]
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict) and one["kind"] == "deploy"]


def client_of(platform: Platform, branch: str) -> Client:
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(branch)
    return client


def test_a_folder_is_committed_in_the_name_of_the_person(
    platform: Platform, definitions_root: Path
) -> None:
    client = client_of(platform, "lamps")
    write_project(definitions_root / "house" / "lamps", endpoint="lamps", unknown=-1)

    run_id = platform.commit_by_form(project="house/lamps", branch="lamps", message="count lamps")

    assert platform.run_of(run_id)["state"] == "success", platform.states_of(run_id)
    assert unknown(client) == -1
    (made,) = commits(client)
    assert (made["actor"], made["message"], made["promotion"]) == ("op", "count lamps", "DONE")
    assert str(made["airflow_run_url"]).rpartition("/")[2] == run_id.replace(":", "%3A").replace(
        "+", "%2B"
    )
    ended = platform.states_of(run_id)
    assert {name: ended[name] for name in ("compile", "commit_point", "promote")} == dict.fromkeys(
        ("compile", "commit_point", "promote"), "success"
    )
    assert {ended["approve"], ended["roll_back"]} == {"skipped"}
    # One run drives the commit: the platform has started no second one.
    runs = platform.airflow("GET", "dags/commit/dagRuns?limit=200&order_by=-run_after")["dag_runs"]
    assert made["commit_id"] not in {run["dag_run_id"] for run in runs}


def test_a_repeated_compilation_finds_the_commit_that_it_made(
    platform: Platform, definitions_root: Path
) -> None:
    client = client_of(platform, "lamps-again")
    write_project(definitions_root / "again", endpoint="lamps_again", unknown=-2)
    run_id = platform.commit_by_form(project="again", branch="lamps-again")
    before = commits(client)

    platform.airflow(
        "POST",
        "dags/commit/clearTaskInstances",
        {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": ["compile"],
            "only_failed": False,
            "reset_dag_runs": True,
        },
    )
    wait_until(
        lambda: (
            platform.run_of(run_id)["state"] == "success"
            and next(t for t in platform.tasks_of(run_id) if t["task_id"] == "compile")[
                "try_number"
            ]
            == 2
        ),
        within_s=COMMIT_S,
        what="the task runs again",
        so_far=lambda: platform.states_of(run_id),
    )

    assert commits(client) == before
    assert "has made commit" in log_of(platform, run_id, "compile", tries=2)


def test_every_mistake_is_in_the_log_and_on_the_ledger_tab(
    platform: Platform, definitions_root: Path
) -> None:
    client = client_of(platform, "lamps-wrong")
    (definitions_root / "wrong").mkdir()
    (definitions_root / "wrong" / "features.py").write_text(WITH_MISTAKES)

    run_id = platform.commit_by_form(project="wrong", branch="lamps-wrong")

    log = log_of(platform, run_id, "compile")
    for place in ("wrong/features.py:11", "wrong/features.py:17"):
        assert place in log
    ended = platform.states_of(run_id)
    assert ended.pop("compile") == "failed"
    assert set(ended.values()) == {"upstream_failed"}
    assert commits(client) == []
    page = ledger_tab(platform, run_id)
    assert "This run has made no commit" in page
    assert "wrong/features.py:11" in page


def ledger_tab(platform: Platform, run_id: str) -> str:
    """Read the page behind the tab `Ledger` of a run, as Airflow's admin."""
    settings = platform.settings
    login = {"username": settings.airflow_user, "password": settings.airflow_password}
    token = httpx.post(f"{settings.airflow_url}/auth/token", json=login, timeout=30.0).json()
    answer = httpx.get(
        f"{settings.airflow_url}/narthex/runs/commit/{run_id}",
        headers={"authorization": f"Bearer {token['access_token']}"},
        timeout=30.0,
    )
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_preview_shows_the_plan_and_commits_nothing(
    platform: Platform, definitions_root: Path
) -> None:
    client = client_of(platform, "lamps-preview")
    write_project(definitions_root / "preview", endpoint="lamps_preview", unknown=-3)

    run_id = platform.commit_by_form(project="preview", branch="lamps-preview", preview=True)

    assert platform.run_of(run_id)["state"] == "success"
    log = log_of(platform, run_id, "compile")
    assert "dataset `Lights`" in log
    assert "nothing was committed" in log
    ended = platform.states_of(run_id)
    assert ended.pop("compile") == "success"
    assert set(ended.values()) == {"skipped"}
    assert commits(client) == []


@pytest.mark.parametrize(
    ("form", "remedy"),
    [
        ({}, "names no project"),
        ({"project": "../wrong"}, "write a relative path"),
        ({"project": "nowhere"}, "name a folder that exists"),
        ({"project": "elsewhere"}, "is a symbolic link"),
        ({"git_conn_id": "nobody_added_it"}, "add it"),
    ],
)
def test_a_form_that_leads_nowhere_is_refused_with_a_remedy(
    platform: Platform, definitions_root: Path, form: dict[str, object], remedy: str
) -> None:
    link = definitions_root / "elsewhere"
    if not link.is_symlink():
        link.symlink_to(platform.settings.home, target_is_directory=True)

    run_id = platform.commit_by_form(**form)

    assert platform.states_of(run_id)["compile"] == "failed"
    assert remedy in log_of(platform, run_id, "compile")


def git(place: Path, *arguments: str) -> None:
    identity = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "ada"), ("EMAIL", "ada@narthex.dev"))
    }
    subprocess.run(
        ("git", "-C", str(place), *arguments),
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(place), **identity},
    )


def test_a_git_repository_is_committed_at_a_ref(platform: Platform, tmp_path: Path) -> None:
    client = client_of(platform, "lamps-git")
    write_project(tmp_path / "features", endpoint="lamps_git", unknown=-4)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "features")
    git(tmp_path, "commit", "--quiet", "-m", "lamps")
    git(tmp_path, "tag", "v1")
    connection = {
        "connection_id": "lamps_repository",
        "conn_type": "generic",
        "host": f"file://{tmp_path}",
        "login": "ada",
        "password": "never-to-be-shown",
    }
    platform.airflow("POST", "connections", connection)

    run_id = platform.commit_by_form(
        git_conn_id="lamps_repository", ref="v1", project="features", branch="lamps-git"
    )

    log = log_of(platform, run_id, "compile")
    assert platform.run_of(run_id)["state"] == "success", log
    assert unknown(client) == -4
    assert "lamps_repository at v1" in str(commits(client)[0]["message"])
    assert "never-to-be-shown" not in log


def test_an_accepted_commit_is_carried_out_by_a_run_that_names_it(platform: Platform) -> None:
    client = Client(platform.settings.server_url, platform.settings.token, "lamps-git")
    (newest, *_) = commits(client)

    run_id = platform.commit_by_form(commit_id=newest["commit_id"])

    assert platform.run_of(run_id)["state"] == "success", platform.states_of(run_id)
    assert "is accepted already" in log_of(platform, run_id, "compile")
