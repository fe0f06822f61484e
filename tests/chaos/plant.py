"""The platform that faults hit: broker, database, server, two supervisors, all of them real."""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import attrs
import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._ir.assets import ResolvedAsset
from narthex.settings import Settings
from narthex_ledger import Ledger
from narthex_stack.operator.stack import Stack
from narthex_stores import LogReader, PartitionKey, Record, StoreError, platform_broker
from tests.chaos.card_velocity import HOURLY_TOPIC, STANDING_TOPIC, WEBHOOK, card_velocity
from tests.chaos.kept_cluster import KeptCluster, kept_cluster
from tests.server.driving import create_all, step
from tests.server.shop import payload
from tests.spark_cluster import CLUSTER, LOCAL

LOOK_EVERY_S = 0.1
GROUPS = ("postgres", "kafka", "server", "supervisor")
MAY_WRITE = """
[[topics]]
name = "chaos-*"
branches = ["main"]
write = true
"""
SINK_PARTITIONS = 2
READ_WITHIN_S = 10.0

_T = TypeVar("_T")


class NotReachedError(RuntimeError):
    """Something that should have come about did not."""


def wait_until(happens: Callable[[], _T], *, within_s: float, what: str) -> _T:
    """Look until it is true; return what was seen.

    Raises:
        NotReachedError: It did not happen in time.
    """
    ends_at = time.monotonic() + within_s
    while not (seen := happens()):
        if time.monotonic() > ends_at:
            raise NotReachedError(f"not within {within_s:.0f} s: {what}")
        time.sleep(LOOK_EVERY_S)
    return seen


@attrs.frozen(kw_only=True)
class Installation:
    """A running installation with card velocity committed to it.

    Attributes:
        cluster: The cluster of its drivers; None if each runs Spark by itself.
    """

    stack: Stack
    settings: Settings
    http: httpx.Client
    cluster: KeptCluster | None = None

    def log(self, endpoint: str, rows: Sequence[dict[str, object]], *, call: str) -> bool:
        """Push rows with an idempotency key; return whether they were accepted."""
        body = {"webhook": WEBHOOK, "endpoint": endpoint, "data": list(rows)}
        try:
            answer = self.http.post("/api/v1/log", json=body, headers={"idempotency-key": call})
        except httpx.HTTPError:
            return False
        return answer.is_success

    def lookup(
        self, dataset: str, keys: Sequence[dict[str, object]], as_of: Sequence[str]
    ) -> dict[str, Any]:
        """Ask for rows as of instants, as readers do.

        Raises:
            httpx.HTTPError: The server did not answer.
        """
        answer = self.http.post(
            f"/api/v1/dataset/{dataset}/lookup",
            json={"keys": list(keys), "timestamps": list(as_of)},
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def jobs(self) -> list[dict[str, Any]]:
        found = self.http.get("/api/v1/jobs")
        found.raise_for_status()
        return [job for job in found.json()["jobs"] if job["desired"] == "running"]

    def settle(self, *, within_s: float) -> None:
        """Wait until every job and feed has drained its topics.

        Reports from before a kill do not count: all jobs must report twice in a row, and the end
        offsets must be the same both times.
        """
        since = dt.datetime.now(dt.UTC)
        before: dict[PartitionKey, int] = {}

        def is_quiet() -> bool:
            nonlocal since, before
            now = dt.datetime.now(dt.UTC)
            try:
                jobs = self.jobs()
                ends = reader.end_offsets(sorted({topic for job in jobs for topic in _read(job)}))
            except (httpx.HTTPError, StoreError):
                return False
            if not jobs or not all(_spoke_after(job, since) for job in jobs):
                return False
            is_same, before, since = ends == before, ends, now
            return is_same and all(_has_drained(job, ends) for job in jobs)

        with LogReader(platform_broker(self.settings)) as reader:
            try:
                wait_until(is_quiet, within_s=within_s, what="all is drained")
            except NotReachedError as error:
                raise NotReachedError(f"{error}; {'; '.join(self._behind())}") from None

    def _behind(self) -> list[str]:
        try:
            jobs = self.jobs()
        except httpx.HTTPError as error:
            return [f"the server does not answer: {error}"]
        return [
            f"{j['label']} {j['kind']}: {j['phase']}, {j['behind']} behind, {j.get('error')}"
            for j in jobs
            if j["phase"] != "caught_up" or j["behind"]
        ]

    def bound(self, path: str) -> ResolvedAsset:
        """Return the asset that a logical path is bound to."""
        ledger = Ledger(self.settings.ledger_dsn)
        try:
            tenant = ledger.installation.ensure_tenant("default")
            branch = ledger.branches.get(tenant, "main")
            assert branch.serving_commit_id is not None
            return ledger.manifests.get(branch.serving_commit_id).bindings[path]
        finally:
            ledger.close()

    def records(self, topic: str) -> list[Record]:
        """Read a whole topic."""
        with LogReader(platform_broker(self.settings)) as reader:
            ends = reader.end_offsets([topic])
            reader.assign(dict.fromkeys(ends, 0))
            found: list[Record] = []
            while len(found) < sum(ends.values()):
                found += reader.poll(max_records=5000, timeout_s=5.0)
        return found

    def committed(self, topic: str) -> list[tuple[bytes, bytes | None]]:
        """Read the keys and values of a whole topic that is written in transactions, in order."""
        consumer = Consumer(
            {
                **platform_broker(self.settings).config(),
                "group.id": "chaos",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(SINK_PARTITIONS)])
        records: list[tuple[bytes, bytes | None]] = []
        at_end: set[int | None] = set()
        while len(at_end) < SINK_PARTITIONS:
            for message in consumer.consume(1000, timeout=READ_WITHIN_S):
                error = message.error()
                if error is None:
                    records.append((message.key() or b"", message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its only name)
                    at_end.add(message.partition())
                else:
                    raise KafkaException(error)
        consumer.close()
        return records


def _read(job: Mapping[str, Any]) -> Mapping[str, Mapping[str, int]]:
    """Return how far a job or feed has read, by topic and partition."""
    found: Mapping[str, Mapping[str, int]] = job["progress"].get("offsets", {})
    return found


def _spoke_after(job: Mapping[str, Any], since: dt.datetime) -> bool:
    at = job["reported_at"]
    return at is not None and dt.datetime.fromisoformat(at) > since


def _has_drained(job: Mapping[str, Any], ends: Mapping[PartitionKey, int]) -> bool:
    read = _read(job)
    return job["phase"] == "caught_up" and all(
        read[topic].get(str(partition), 0) >= end
        for (topic, partition), end in ends.items()
        if topic in read
    )


@contextmanager
def plant(
    home: Path, *, supervisors: int, spark: str = LOCAL, within_s: float
) -> Iterator[Installation]:
    """Start the platform, commit card velocity, and stop it all at the end.

    Args:
        home: An empty directory.
        supervisors: Their number.
        spark: `local`, or `cluster` for drivers on a cluster of a master and two workers.
        within_s: How long each of the start and the commit may take.

    Raises:
        NotStartedError: It did not come up in time.
        NotReachedError: Readers did not see the commit in time.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with kept_cluster(home / "cluster") if spark == CLUSTER else nullcontext() as cluster:
        configuration = {} if cluster is None else cluster.configuration()
        lines = {"supervisors": str(supervisors), **configuration}.items()
        (home / "config.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in lines))
        (home / "policy.toml").write_text(MAY_WRITE)
        with _started(home, cluster, within_s=within_s) as found:
            commit(found, within_s=within_s)
            yield found


@contextmanager
def _started(home: Path, cluster: KeptCluster | None, *, within_s: float) -> Iterator[Installation]:
    stack = Stack(home, only=GROUPS, files_root=home)
    try:
        stack.start(within_s=within_s)
        settings = stack.settings
        with httpx.Client(
            base_url=settings.server_url,
            headers={"authorization": f"Bearer {settings.token}"},
            timeout=20.0,
        ) as http:
            yield Installation(stack=stack, settings=settings, http=http, cluster=cluster)
    finally:
        stack.stop()


def _create_sink_topics(settings: Settings) -> None:
    admin = AdminClient({**platform_broker(settings).config()})
    topics = [NewTopic(name, SINK_PARTITIONS, 1) for name in (HOURLY_TOPIC, STANDING_TOPIC)]
    for created in admin.create_topics(topics).values():
        created.result(READ_WITHIN_S)


def commit(found: Installation, *, within_s: float) -> None:
    """Take the steps of a commit, as Airflow's tasks do; new endpoints have no past to fill."""
    _create_sink_topics(found.settings)
    answer = found.http.post("/api/v1/commit", content=payload(card_velocity()))
    assert answer.status_code == 202, answer.text
    commit_id = str(answer.json()["commit_id"])
    create_all(found.http, commit_id)  # type: ignore[arg-type]
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(found.http, commit_id, name)  # type: ignore[arg-type]

    def is_promoted() -> bool:
        try:
            answer = found.http.post(f"/api/v1/commits/{commit_id}/steps/promote")
        except httpx.HTTPError:
            return False
        return answer.is_success

    wait_until(is_promoted, within_s=within_s, what="readers see it")
