"""The whole platform as a person meets it: its client, its broker, its Airflow, its processes."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import httpx
import pandas as pd
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from narthex.client import Client
from narthex.settings import Settings
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.status import ServiceState, ServiceStatus
from narthex_stores import LogReader, Record, platform_broker
from tests.spark_processes import find_in_driver

LOOK_EVERY_S = 0.25
COMMIT_S = 600.0
ENDED = {"success", "failed"}
"""The states of a run of Airflow that has ended."""
STREAM_S = 180.0

_T = TypeVar("_T")
Row = Mapping[str, object]


def wait_until(
    happens: Callable[[], _T], *, within_s: float, what: str = "", so_far: object = None
) -> _T:
    """Look until it is true; return what was seen.

    Raises:
        AssertionError: It did not happen in time; with what was seen last.
    """
    ends_at = time.monotonic() + within_s
    while True:
        seen = happens()
        if seen:
            return seen
        if time.monotonic() > ends_at:
            last = so_far() if callable(so_far) else seen
            raise AssertionError(f"not within {within_s:.0f} s: {what}; last seen: {last}")
        time.sleep(LOOK_EVERY_S)


@attrs.frozen(kw_only=True)
class Platform:
    """A running installation."""

    stack: Stack
    settings: Settings
    client: Client
    producer: Producer
    http: httpx.Client
    """Keeps its certificates: to load them takes longer than a call."""
    _tokens: dict[str, str] = attrs.field(factory=dict, init=False)

    def log(self, endpoint: str, rows: Sequence[Row]) -> None:
        """Push rows to the market's webhook."""
        self.client.log("market", endpoint, pd.DataFrame(list(rows)))

    def produce(self, topic: str, payloads: Sequence[bytes]) -> None:
        """Append records to a topic as an outside service does, and wait until they are durable."""
        for payload in payloads:
            self.producer.produce(topic, payload)
        assert self.producer.flush(30) == 0

    def make_topic(self, topic: str) -> None:
        admin = AdminClient({**platform_broker(self.settings).config()})
        new = NewTopic(topic, num_partitions=2, replication_factor=1)
        admin.create_topics([new])[topic].result(30)

    def ask(self, outputs: Sequence[str], *, as_of: str, **given: str) -> dict[str, Any]:
        """Ask for features of one row online; names are those within their featureset."""
        featureset = outputs[0].split(".")[0]
        columns = {f"{featureset}.{name}": [value] for name, value in given.items()}
        answers, _ = self.client.query_columns([*columns], outputs, columns, as_of=as_of)
        return {name.split(".")[1]: values[0] for name, values in answers.items()}

    def airflow(
        self, method: str, path: str, body: object = None, *, user: str = "", password: str = ""
    ) -> Any:
        """Call Airflow's REST API as a user; as its admin when none is named."""
        if user not in self._tokens:
            account = {
                "username": user or self.settings.airflow_user,
                "password": password or self.settings.airflow_password,
            }
            issued = self.http.post(f"{self.settings.airflow_url}/auth/token", json=account)
            self._tokens[user] = str(issued.json()["access_token"])
        answer = self.http.request(
            method,
            f"{self.settings.airflow_url}/api/v2/{path}",
            json=body,
            headers={"authorization": f"Bearer {self._tokens[user]}"},
        )
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str) -> dict[str, Any]:
        """Post to a path of the server's API."""
        answer = self.http.post(
            f"{self.settings.server_url}/api/v1/{path}",
            headers={"authorization": f"Bearer {self.settings.token}"},
        )
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        found: dict[str, Any] = answer.json()
        return found

    def topics(self) -> list[str]:
        """Name all topics of the broker."""
        admin = AdminClient({**platform_broker(self.settings).config()})
        return list(admin.list_topics(timeout=30).topics)

    def run_of(self, commit_id: str) -> dict[str, Any]:
        """Return the Airflow run of a commit."""
        found: dict[str, Any] = self.airflow("GET", f"dags/commit/dagRuns/{commit_id}")
        return found

    def tasks_of(self, run_id: str, *, dag: str = "commit") -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        path = f"dags/{dag}/dagRuns/{run_id}/taskInstances?limit=200"
        found: list[dict[str, Any]] = self.airflow("GET", path)["task_instances"]
        return found

    def states_of(self, run_id: str) -> dict[str, str]:
        """Return the state of each task of a run of the DAG `commit`."""
        return {task["task_id"]: task["state"] for task in self.tasks_of(run_id)}

    def commit_by_form(self, **form: object) -> str:
        """Trigger the DAG `commit` with its form, as the user `op`; return the run, which ended."""
        keys = json.loads((self.settings.home / "secrets.json").read_text())
        run = self.airflow(
            "POST",
            "dags/commit/dagRuns",
            {"logical_date": None, "conf": form},
            user="op",
            password=keys["op_password"],
        )
        run_id = str(run["dag_run_id"])
        wait_until(
            lambda: self.run_of(run_id)["state"] in ENDED,
            within_s=COMMIT_S,
            what=f"{run_id} ends",
            so_far=lambda: self.states_of(run_id),
        )
        return run_id

    def commit_of(self, commit_id: str) -> dict[str, Any]:
        """Return a commit as the server shows it."""
        return self.client.read(f"commits/{commit_id}")

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs and feeds."""
        found = self.client.read("jobs")["jobs"]
        assert isinstance(found, list)
        return [job for job in found if isinstance(job, dict)]

    def settle(self) -> None:
        """Wait until every job and feed has drained  what was sent, twice in a row."""

        def is_quiet() -> bool:
            behind = [j for j in self.jobs() if j["desired"] == "running"]
            return all(j["phase"] == "caught_up" and not j["behind"] for j in behind)

        wait_until(lambda: is_quiet() and is_quiet(), within_s=STREAM_S, what="all caught up")

    def topic(self, label: str) -> str:
        """Return the physical name of a topic by its label."""
        for commit in self.client.read("commits")["commits"]:  # type: ignore[union-attr]
            assert isinstance(commit, dict)
            for asset in self.commit_of(str(commit["commit_id"]))["assets"]:
                if asset["label"] == label and asset["kind"] == "kafka_topic":
                    return str(asset["physical_name"])
        raise AssertionError(f"no topic has the label {label}")

    def records(self, topic: str) -> list[Record]:
        """Read a whole topic."""
        with LogReader(platform_broker(self.settings)) as reader:
            ends = reader.end_offsets([topic])
            reader.assign(dict.fromkeys(ends, 0))
            found: list[Record] = []
            while len(found) < sum(ends.values()):
                found += reader.poll(max_records=1000, timeout_s=5.0)
        return found

    def service(self, name: str) -> ServiceStatus:
        return next(one for one in self.stack.status().services if one.name == name)

    def runner_pid(self, name: str) -> int:
        """Return the process of the driver, its JVM or a standing task; 0 while it has none."""
        found = find_in_driver(self.settings.home / "run" / "driver.pid", name)
        return found.pid if found else 0

    def kill_runner(self, name: str) -> int:
        """Kill the driver, its JVM or a standing task; return its old number."""
        pid = self.runner_pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_back(self, name: str, *, other_than: int) -> None:
        """Wait until a killed runner is another process."""

        def is_back() -> bool:
            return self.runner_pid(name) not in {0, other_than}

        wait_until(is_back, within_s=STREAM_S, what=f"{name} is back")

    def kill_service(self, name: str) -> int:
        """Kill a service's own process; return its old number."""
        process = self.service(name).process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        return process.pid

    def wait_service(self, name: str, *, other_than: int) -> None:
        """Wait until a killed service is another process and well."""

        def is_back() -> bool:
            found = self.service(name)
            return (
                found.state is ServiceState.HEALTHY
                and found.process is not None
                and found.process.pid != other_than
            )

        wait_until(is_back, within_s=120.0, what=f"{name} is back", so_far=self.stack.status)


def order(user: str, at: str, *, quantity: object = 1, item: str = "tea") -> dict[str, object]:
    """Return an order as sources send it."""
    return {"user": user, "item": item, "quantity": quantity, "price": 2.0, "ordered_at": at}


def as_json(rows: Sequence[Row]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]
