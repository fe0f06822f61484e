"""A person answers in Airflow whether readers may flip; commits end without Airflow too."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page

from narthex.client import Client
from narthex.errors import NarthexError
from tests.acceptance.platform import COMMIT_S, Platform, wait_until
from tests.acceptance.visits import visits

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

ENDED_S = 120.0
AIRFLOW = ("airflow-api-server", "airflow-scheduler", "airflow-triggerer", "airflow-dag-processor")


@contextmanager
def client_of(platform: Platform, branch: str) -> Iterator[Client]:
    """Make a branch, and a client that is at it."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(branch)
    yield client
    client.close()


def commit(client: Client, definitions: tuple[Sequence[type], Sequence[type]]) -> str:
    answer = client.commit("visits", *definitions, wait=False)
    return str(answer.body["commit_id"])


def unknown(client: Client) -> object:
    """Query a page without visits; None if no commit serves."""
    try:
        answers, _ = client.query_columns(["Page.page"], ["Page.visits"], {"Page.page": ["none"]})
    except NarthexError:
        return None
    return answers["Page.visits"][0]


def questions(platform: Platform, commit_id: str) -> list[dict[str, Any]]:
    """Return the unanswered approval requests of Airflow for a commit."""
    found: list[dict[str, Any]] = platform.airflow(
        "GET", f"dags/commit/dagRuns/{commit_id}/hitlDetails"
    )["hitl_details"]
    return [one for one in found if not one["response_received"]]


def required_action(platform: Platform, commit_id: str) -> dict[str, Any]:
    """Wait until Airflow requests an approval; return the request."""
    (action,) = wait_until(
        lambda: questions(platform, commit_id),
        within_s=COMMIT_S,
        what="Airflow requests an approval",
        so_far=lambda: platform.commit_of(commit_id),
    )
    return action


def answer(platform: Platform, commit_id: str, choice: str) -> dict[str, Any]:
    """Answer as the buttons of Airflow's page do, as the user `op`; return the commit's end."""
    keys = json.loads((platform.settings.home / "secrets.json").read_text())

    def has_ended() -> dict[str, Any] | None:
        if questions(platform, commit_id):
            platform.airflow(
                "PATCH",
                f"dags/commit/dagRuns/{commit_id}/taskInstances/approve/-1/hitlDetails",
                {"chosen_options": [choice], "params_input": {}},
                user="op",
                password=keys["op_password"],
            )
        found = platform.commit_of(commit_id)
        return found if found["finished_at"] else None

    # Answered at once, Airflow may ask a second time.
    return wait_until(
        has_ended,
        within_s=ENDED_S,
        what=f"{commit_id} ends",
        so_far=lambda: platform.commit_of(commit_id),
    )


def ended(platform: Platform, commit_id: str) -> dict[str, Any]:
    return wait_until(
        lambda: found if (found := platform.commit_of(commit_id))["finished_at"] else None,
        within_s=ENDED_S,
        what=f"{commit_id} ends",
        so_far=lambda: platform.commit_of(commit_id),
    )


def test_readers_flip_only_after_an_approval_in_airflow(
    platform: Platform,
) -> None:
    with client_of(platform, "guarded") as client:
        client.protect_branch("guarded")
        accepted = commit(client, visits("guarded", unknown=-1))
        action = required_action(platform, accepted)
        before, asked_at = unknown(client), datetime.now(tz=UTC)

        approved = answer(platform, accepted, "Approve")

        assert (before, unknown(client)) == (None, -1)
        assert accepted in action["subject"]
        assert (approved["promotion"], approved["approval"]["by"]) == ("DONE", "op")
        assert asked_at < datetime.fromisoformat(approved["approval"]["at"]) < datetime.now(tz=UTC)

        refused = commit(client, visits("guarded", unknown=-2, version=2))
        required_action(platform, refused)
        rejected = answer(platform, refused, "Reject")

        assert unknown(client) == -1
        assert (rejected["promotion"], rejected["approval"]["by"]) == ("SUPERSEDED", None)
        assert rejected["approval"]["rejected"]["by"] == "op"


def test_an_approval_with_the_client_answers_airflow(platform: Platform) -> None:
    with client_of(platform, "asked") as client:
        client.protect_branch("asked")
        commit_id = commit(client, visits("asked", unknown=-3))
        required_action(platform, commit_id)

        client.approve(commit_id)

        approved = ended(platform, commit_id)
        assert (approved["approval"]["by"], unknown(client)) == ("platform", -3)
        assert succeeded(platform, commit_id) == {"approve": "success", "promote": "success"}


def decide(platform: Platform, page: Page, commit_id: str, button: str) -> None:
    """Click a button of a commit's page in the console, as the holder of the installation's token.

    A check that ends while the page is read refuses the click, and the page then shows the check.
    """
    settings = platform.settings
    page.goto(f"{settings.server_url}/console/commits/{commit_id}")
    if page.locator("#token").is_visible():
        page.fill("#token", settings.token)
        page.get_by_role("button", name="Open").click()

    def is_decided() -> bool:
        with page.expect_navigation():
            page.get_by_role("button", name=button, exact=True).click()
        approval = platform.commit_of(commit_id)["approval"]
        return bool(approval["by"] or approval["rejected"])

    wait_until(is_decided, within_s=ENDED_S, what="a click counts", so_far=page.content)


def test_a_decision_in_the_console_answers_airflow(platform: Platform, page: Page) -> None:
    with client_of(platform, "clicked") as client:
        client.protect_branch("clicked")
        accepted = commit(client, visits("clicked", unknown=-4))
        required_action(platform, accepted)
        decide(platform, page, accepted, "Approve")
        approved = ended(platform, accepted)

        assert (approved["approval"]["by"], unknown(client)) == ("platform", -4)
        assert succeeded(platform, accepted) == {"approve": "success", "promote": "success"}

        refused = commit(client, visits("clicked", unknown=-5, version=2))
        required_action(platform, refused)
        decide(platform, page, refused, "Reject")
        rejected = ended(platform, refused)

        assert (rejected["promotion"], rejected["approval"]["by"]) == ("SUPERSEDED", None)
        assert rejected["approval"]["rejected"]["by"] == "platform"
        assert succeeded(platform, refused)["promote"] != "success"
        assert (questions(platform, refused), unknown(client)) == ([], -4)


def succeeded(platform: Platform, commit_id: str) -> dict[str, str]:
    """Wait until the run has ended; return how the tasks ended that let readers flip."""
    wait_until(
        lambda: platform.run_of(commit_id)["state"] in {"success", "failed"},
        within_s=ENDED_S,
        what="the run ends",
        so_far=lambda: platform.tasks_of(commit_id),
    )
    states = {task["task_id"]: task["state"] for task in platform.tasks_of(commit_id)}
    return {name: states[name] for name in ("approve", "promote")}


@contextmanager
def stopped(platform: Platform, names: Sequence[str]) -> Iterator[None]:
    """Stop the processes of services, as a machine that hangs does."""
    processes = [platform.service(name).process for name in names]
    try:
        for process in processes:
            assert process is not None
            os.kill(process.pid, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            # Its operator may have replaced it meanwhile: it did not answer.
            with suppress(ProcessLookupError):
                if process is not None:
                    os.kill(process.pid, signal.SIGCONT)


def test_commits_end_while_airflow_is_dead_and_it_asks_a_person_when_it_is_back(
    platform: Platform,
) -> None:
    with client_of(platform, "alone") as client, client_of(platform, "watched") as other:
        other.protect_branch("watched")
        with stopped(platform, AIRFLOW):
            done = commit(client, visits("alone", unknown=-7))
            waiting = commit(other, visits("watched", unknown=-9))
            serving = ended(platform, done)
            cancelled = commit(client, visits("alone", unknown=-8, version=2))
            platform.post(f"commits/{cancelled}/cancel")
            taken_back = ended(platform, cancelled)

            assert (serving["state"], serving["promotion"]) == ("FINALIZED", "DONE")
            assert taken_back["state"] in {"REJECTED", "ABORTED"}
            assert (unknown(client), unknown(other)) == (-7, None)

        required_action(platform, waiting)
        approved = answer(platform, waiting, "Approve")

        assert (approved["approval"]["by"], unknown(other)) == ("op", -9)
