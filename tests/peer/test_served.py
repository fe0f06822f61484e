"""A server carries out the commits of Fennel's users, and its answers are those of unit tests.

The server is real, with PostgreSQL, Kafka and indexes on disk. No job runs: the test reports them
as caught up, as supervisors do, and writes the rows of the only indexed source into its index.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import pytest

from docs.render_migrating import reasons
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import IndexSpec
from narthex._ir.facts import Fact, Version
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from narthex_stores import LmdbIndex
from tests.peer.comparison import PROBES, outcomes, own_command
from tests.peer.templates import SERVED, Program, programs
from tests.server.conftest import TOKEN, House, house_at, settings_at
from tests.server.driving import create_all, report_caught_up, step
from tests.server.listening import listening

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

ROOT: Final = Path(__file__).resolve().parents[2]
CHILD: Final = Path(__file__).with_name("served.py")
WITHIN_S, PAUSE_S = 60.0, 0.5
FIRST_US: Final = 1_704_067_200_000_000
MINUTE_US: Final = 60_000_000
ROWS_OF_U: Final = (("a", 0, ("p", 1.0)), ("b", 0, ("q", None)), ("a", 2, ("r", 2.0)))
"""The key, the minute and the values of each row that the programs log."""

POLICY: Final = """
[egress]
allow = ["h", "b", "127.0.0.1"]
[[secrets]]
name = "*"
branches = ["*"]
hosts = ["*"]
code = true
[[topics]]
name = "*"
branches = ["*"]
write = true
[[files]]
path = "**"
branches = ["*"]
write = true
[[files]]
path = "s3://*/**"
branches = ["*"]
write = true
[[endpoints]]
name = "*"
branches = ["*"]
"""

OTHER: Final[Mapping[str, str]] = {
    "return ts.rename('c')": "it returns the time of the query",
    "client.lookup('U', ": "types are known of datasets that are passed as objects",
    "client.inspect(": "no job has written the rows",
    "client.list_branches()": "the server has the branches of other programs",
    ").status_code": "the commit is not waited for, as the test drives it",
}
"""Parts of the programs whose answers differ here, each with the reason."""


@pytest.fixture
def served(tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str) -> Iterator[House]:
    (port,) = free_ports(1)
    settings = attrs.evolve(
        settings_at(tmp_path / "home", dsn=ledger_dsn, kafka=kafka_bootstrap),
        server_url=f"http://127.0.0.1:{port}",
        install_id="served00",
    )
    settings.policy_file.parent.mkdir(parents=True, exist_ok=True)
    settings.policy_file.write_text(POLICY, encoding="utf-8")
    with (
        house_at(settings) as house,
        listening(make_app(house.services), port, has_tasks=False),
    ):
        for name, kind in (("q", "Postgres"), ("mysql", "MySQL")):
            secrets = {"username": "db/user", "password": "db/password"}
            stored = {"kind": kind, "arguments": {"host": "h", "db_name": "d"}, "secrets": secrets}
            answer = house.client.put(f"/api/v1/connections/{name}", json=stored)
            assert answer.is_success, answer.text
        yield house


def is_batched(program: Program) -> bool:
    """Whether a program only declares and fills the dataset `D`."""
    return "datasets=[E, U, D])" in program.module or "datasets=[D])" in program.module


def renamed(module: str, number: int) -> str:
    """Return a program whose dataset and connections have names of their own."""
    module = module.replace("MySQL.get(name='q')", "MySQL.get(name='mysql')")
    name = f"D{number}"
    for pattern in (r"(?<=class )D(?=:)", r'(?<=endpoint\(")D(?="\))', r"(?<=[\[ ])D(?=\]\))"):
        module = re.sub(pattern, name, module)
    return module


def drive(house: House, commit_id: str, reported: set[int]) -> None:
    """Take a commit's steps as Airflow's tasks and a supervisor do; jobs are reported once."""
    refusal, ends_at = "", time.monotonic() + WITHIN_S
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfill"):
        step(house.client, commit_id, name)
    for job in house.ledger.jobs.all():
        if job.needs_backfill and job.backfilled_at is None:
            epoch = house.ledger.backfills.claim(UUID(commit_id), job.asset.asset_id)
            if epoch is not None:
                house.ledger.backfills.finish(job.asset.asset_id, epoch, offsets={})
    step(house.client, commit_id, "backfilled")
    while time.monotonic() < ends_at:
        jobs = [job for job in house.ledger.jobs.all() if job.asset.asset_id not in reported]
        report_caught_up(house, jobs)
        reported |= {job.asset.asset_id for job in jobs}
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/promote")
        if answer.status_code == HTTPStatus.OK:
            return
        refusal = answer.text
        if "caught up" in refusal:
            # A supervisor that held the slots of a job no longer holds them: all report again.
            reported.clear()
        threading.Event().wait(PAUSE_S)
    raise AssertionError(refusal)


def fill(house: House, branch: str) -> bool:
    """Write the rows of `U` into its index; return whether the branch has one."""
    asset = house.services.snapshots.serving(branch).bindings.get("dataset/U/index")
    if asset is None:
        return False
    assert isinstance(asset.spec, IndexSpec)
    index = LmdbIndex(house.services.settings.index_dir / asset.physical_name, asset.spec)
    facts = [
        Fact(
            row_id=keyed_row_id(
                key_bytes(index.spec.log.keys, (key,)), FIRST_US + minute * MINUTE_US
            ),
            version=Version(b"1"),
            event_time=FIRST_US + minute * MINUTE_US,
            key=(key,),
            values=values,
        )
        for key, minute, values in ROWS_OF_U
    ]
    index.apply(facts, offsets={}, epoch=1)
    index.close()
    return True


def run(house: House, place: Path) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of the programs of a directory."""
    command = [sys.executable, "-m", "narthex.compat.fennel", str(CHILD), str(place)]
    is_filled, reported = False, set[int]()
    with subprocess.Popen(
        [*command, house.services.settings.server_url, TOKEN],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in child.stdout:
            found = json.loads(line)
            if "commit" not in found:
                yield found
                continue
            drive(house, found["commit"], reported)
            is_filled = is_filled or fill(house, found["branch"])
            child.stdin.write("\n")
            child.stdin.flush()
    assert child.returncode == 0


def values_of(shown: Any) -> Any:
    """Return what was shown without dtypes, and with one null."""
    match shown:
        case {"columns": columns, "rows": rows}:
            return {name: [values_of(row[at]) for row in rows] for at, name in enumerate(columns)}
        case {"dtype": _, "values": values}:
            return values_of(values)
        case {"array": values}:
            return values_of(values)
        case dict():
            return {name: values_of(one) for name, one in shown.items()}
        case list():
            return [values_of(one) for one in shown]
        case "<NA>" | "nan":
            return None
        case _:
            return shown


@attrs.frozen
class _Written:
    """The files of the programs.

    Attributes:
        labels: The label of each program by its file's name.
        alone: The programs that run with a client, by the names of their files.
    """

    labels: Mapping[str, str]
    alone: Mapping[str, Program]


def write(here: Path, there: Path) -> _Written:
    """Write the programs for the server `there`; those that run with a client also `here`."""
    labels: dict[str, str] = {}
    alone: dict[str, Program] = {}
    for number, one in enumerate(one for one in programs() if one.use in SERVED):
        text = renamed(one.module, number) if is_batched(one) else one.module
        name = f"{'batched' if is_batched(one) else 'alone'}_{number:04}"
        labels[name] = one.label
        (there / f"{name}.py").write_text(text, encoding="utf-8")
        if not is_batched(one):
            alone[name] = one
            (here / f"program_{number:04}.py").write_text(text, encoding="utf-8")
    return _Written(labels, alone)


def test_a_server_carries_out_valid_programs_or_there_is_a_reason(
    served: House, tmp_path: Path
) -> None:
    listed = {text for one in reasons() if one.kind == "server" for text in one.programs}
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    written = write(here, there)

    found = {one["name"]: one for one in run(served, there)}
    unit_tests = outcomes(own_command(PROBES, str(here)))
    in_process = dict(zip(sorted(written.alone), unit_tests, strict=True))

    assert found.keys() == written.labels.keys()
    refused = {
        written.labels[name]: one["said"]
        for name, one in found.items()
        if one["stage"] != "done" and in_process.get(name, {"stage": "done"})["stage"] == "done"
    }
    assert {label: said for label, said in refused.items() if label not in listed} == {}
    assert sorted(listed - refused.keys()) == []
    different: dict[str, tuple[Any, Any]] = {}
    for name, program in written.alone.items():
        shown = values_of(found[name].get("shown", []))
        wanted = values_of(in_process[name].get("shown", []))[: len(shown)]
        if shown != wanted:
            different[program.label] = (shown, wanted)
    unexplained = {
        label: pair for label, pair in different.items() if not any(part in label for part in OTHER)
    }
    assert unexplained == {}
    assert [part for part in OTHER if not any(part in label for label in different)] == []
