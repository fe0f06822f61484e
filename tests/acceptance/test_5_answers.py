"""Logged queries are asked again at night, and a wrong answer fails the DAG."""

from collections.abc import Iterator

import attrs
import pandas as pd
import pytest

from narthex._query import LoggedQuery, answers_topic
from narthex.client import Client
from tests.acceptance import parcels
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.test_4_quality import log_of

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "answered"
PROVED_S = 900.0
AT = "2026-05-01T08:00:00Z"
NOON = "2026-05-01T12:00:00Z"


def grams(client: Client, *, log: bool) -> list[object]:
    answers, _ = client.query_columns(
        ["Parcel.parcel"],
        ["Parcel.grams"],
        {"Parcel.parcel": ["answered-1", "answered-2"]},
        as_of=NOON,
        log=log,
    )
    return list(answers["Parcel.grams"])


@pytest.fixture(scope="module")
def answered(platform: Platform) -> Iterator[Client]:
    """A branch whose answers were logged twice: before and after a parcel weighs more."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("parcels", *parcels.FIRST, timeout_s=COMMIT_S)
    for weight in (1500, 1600):
        row = {"parcel": "answered-1", "grams": weight, "at": AT}
        client.log("parcels", "weighed", pd.DataFrame([row]))
        wait_until(
            lambda weight=weight: grams(client, log=False) == [weight, 0],
            within_s=STREAM_S,
            what=f"the parcel weighs {weight} g",
        )
        assert grams(client, log=True) == [weight, 0]
    yield client
    client.close()


def proved(platform: Platform) -> tuple[str, str, str]:
    """Run the DAG; return the run, the state of this branch's task and its log."""
    run = platform.airflow("POST", "dags/prove/dagRuns", {"logical_date": None})
    run_id = str(run["dag_run_id"])

    def state() -> str | None:
        states = {
            task["rendered_map_index"]: task["state"]
            for task in platform.tasks_of(run_id, dag="prove")
            if task["task_id"] == "repeat_answers"
        }
        return states[BRANCH] if states.get(BRANCH) in {"success", "failed"} else None

    # The other tasks of the run recompute every dataset of the platform, which takes minutes.
    ended = wait_until(state, within_s=PROVED_S, what=f"the answers of {BRANCH} are repeated")
    return (
        run_id,
        ended or "",
        log_of(platform, run_id, "repeat_answers", of=BRANCH, dag="prove"),
    )


@pytest.mark.usefixtures("answered")
def test_right_answers_are_equal_at_the_offsets_they_were_read_at(platform: Platform) -> None:
    _, state, log = proved(platform)

    assert state == "success", log
    assert f"2 logged queries of {BRANCH} have the same answers" in log


@pytest.mark.usefixtures("answered")
def test_a_wrong_answer_is_reported_with_its_feature_key_and_offsets(platform: Platform) -> None:
    topic = answers_topic(platform.settings.install_id)
    logged = [LoggedQuery.decoded(record.value or b"") for record in platform.records(topic)]
    newest = [one for one in logged if one.branch == BRANCH][-1]
    wrong = attrs.evolve(newest, outputs={"Parcel.grams": [1601, 0]})
    platform.produce(topic, [wrong.encoded()])
    place = len(logged)

    _, state, log = proved(platform)

    assert state == "failed", log
    reported = log.replace("\\", "")
    assert '"feature": "Parcel.grams"' in reported
    assert '"Parcel.parcel": "answered-1"' in reported
    assert '"found": {' in reported
    assert '"Parcel.grams": 1601' in reported
    assert '"Parcel.grams": 1600' in reported
    assert f'"logged_at": "0/{place}"' in reported
    (offsets,) = newest.offsets.values()
    assert all(f'"{topic}"' in reported for topic in offsets)
