"""`narthex audit` of several names on a served installation, with real stores and a broker."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex.settings import environment_of
from narthex_expectations import audit_runs
from narthex_expectations.server_client import audited_dataset
from tests.server.audited_sales import arrive, served_sales
from tests.server.conftest import House

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

GOOD, BROKEN, LOST = "Sales000", "Sales001", "Sales002"
BEHIND = ("Sales003", "Sales004")
WAIT_S = 10.0
BOTH = ["arrival", "event_time"]


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """Five datasets: as expected, with a negative amount, without its history, and two behind."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=5) as house:
        arrive(house, GOOD, [1.0, 2.0])
        arrive(house, BROKEN, [3.0, -4.0, 5.0])
        arrive(house, LOST, [6.0])
        lost = audited_dataset(house.services.settings, LOST, branch="main")
        shutil.rmtree(lost.history_path)
        for name in BEHIND:
            topic = audited_dataset(house.services.settings, name, branch="main").topic
            house.services.producer.append(topic, value=b"{}").result(30.0)
        yield house


def words(*arguments: str) -> list[str]:
    """Return the words of an audit of the last hour by the clock."""
    now = dt.datetime.now(tz=dt.UTC)
    span = ["--from", (now - dt.timedelta(hours=1)).isoformat(), "--to", now.isoformat()]
    return ["audit", *arguments, "--by", "both", *span]


def audited(house: House, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "narthex.cli", *words(*arguments)],
        env={**os.environ, **environment_of(house.services.settings)},
        capture_output=True,
        text=True,
        check=False,
    )


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def stored(house: House) -> list[tuple[str, str, bool]]:
    """Return what the server has of audits, the oldest first."""
    found = house.client.get("/api/v1/audits", params={"limit": 500}).json()["audits"]
    audits = [one for one in found if one["commit_id"] is None]
    return [(one["dataset"], one["by"], one["is_critical"]) for one in reversed(audits)]


def test_one_process_audits_several_names_and_a_broken_one_fails_no_other(house: House) -> None:
    before = len(stored(house))

    done = audited(house, GOOD, BROKEN, "Sale", GOOD, "--json")

    assert done.returncode == 0, done.stderr
    lines = lines_of(done)
    assert [(one["dataset"], one["by"], one["rows"], one["is_critical"]) for one in lines] == [
        (GOOD, "arrival", 2, False),
        (GOOD, "event_time", 2, False),
        (BROKEN, "arrival", 3, True),
        (BROKEN, "event_time", 3, True),
        # Nobody has logged a query yet: the installation has no log of them.
        ("Sale", "logged", 0, False),
    ]
    assert stored(house)[before:] == [
        *((GOOD, by, False) for by in BOTH),
        *((BROKEN, by, True) for by in BOTH),
        ("Sale", "logged", False),
    ]


def test_an_audit_that_cannot_run_is_named_and_the_others_run(house: House) -> None:
    before = len(stored(house))

    done = audited(house, LOST, BROKEN, GOOD, "--json")

    assert done.returncode == 3
    failed, *lines = lines_of(done)
    assert set(failed) == {"dataset", "error"}
    assert failed["dataset"] == LOST
    assert done.stderr == f"narthex audit: {LOST}: {failed['error']}\n"
    assert [one["dataset"] for one in lines] == [BROKEN, BROKEN, GOOD, GOOD]
    assert [name for name, _, _ in stored(house)[before:]] == [BROKEN, BROKEN, GOOD, GOOD]


def test_unknown_names_are_refused_together_before_anything_is_audited(house: House) -> None:
    before = stored(house)

    done = audited(house, GOOD, "Sails", BROKEN, "Sole")
    as_json = audited(house, GOOD, "Sails", BROKEN, "Sole", "--json")

    assert (done.returncode, as_json.returncode) == (1, 1)
    assert done.stdout == ""
    told = [line.split(": ")[:2] for line in done.stderr.splitlines()]
    assert told == [["narthex audit", "Sails"], ["narthex audit", "Sole"]]
    assert [(one["dataset"], set(one)) for one in lines_of(as_json)] == [
        ("Sails", {"dataset", "error"}),
        ("Sole", {"dataset", "error"}),
    ]
    assert stored(house) == before


def test_people_see_a_table_for_each_name(house: House) -> None:
    done = audited(house, GOOD, BROKEN)

    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"{GOOD}@1: 2 rows by arrival",
        f"{GOOD}@1: 2 rows by event time",
        f"{BROKEN}@1: 3 rows by arrival",
        f"{BROKEN}@1: 3 rows by event time",
    ]
    outcomes = [line.split()[0] for line in done.stdout.splitlines()]
    assert outcomes == [*["outcome", "kept", "kept"] * 2, *["outcome", "BROKEN", "kept"] * 2]


def test_alerts_see_the_newest_audit_of_each_name_however_often_it_ran(house: House) -> None:
    audited(house, GOOD, BROKEN, "--json")
    audited(house, GOOD, BROKEN, "--json")

    found = house.ledger.audits.newest_of_datasets(within=dt.timedelta(hours=1))
    rows = [(one.dataset, one.is_critical) for one in found if one.dataset in {GOOD, BROKEN}]
    assert sorted(rows) == [(GOOD, False)] * 2 + [(BROKEN, True)] * 2


def test_all_names_wait_for_their_histories_together(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_runs, "REACHED_WITHIN_S", WAIT_S)
    for name, value in environment_of(house.services.settings).items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()

    done = CliRunner().invoke(make_app(), words(*BEHIND))

    took_s = time.monotonic() - began
    assert done.exit_code == 3
    told = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in told] == [*BEHIND]
    assert all("and not yet at" in line for line in told)
    assert WAIT_S <= took_s < 2 * WAIT_S
