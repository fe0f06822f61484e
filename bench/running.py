"""The platform that a benchmark runs on: one that is named, or a new one that ends with it."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.payments import DATASETS, FEATURESETS, TOPIC
from narthex.client import Client
from narthex.settings import Settings, load_settings

PARTITIONS = 2


def say(story: str) -> None:
    """Tell a line of the story, on stderr."""
    print(story, file=sys.stderr, flush=True)


@contextmanager
def platform(home: Path | None) -> Iterator[Settings]:
    """Give a healthy platform: of that home, left running; or a new one, wiped at the end."""
    place = home or Path(tempfile.mkdtemp(prefix="narthex-bench-"))
    environment = {**os.environ, "NARTHEX_HOME": str(place)}
    command = [sys.executable, "-m", "narthex.cli"]
    try:
        subprocess.run([*command, "up"], check=True, env=environment)
        yield load_settings(environment)
    finally:
        if home is None:
            subprocess.run([*command, "down", "--wipe"], check=False, env=environment)
            shutil.rmtree(place, ignore_errors=True)


def connect(settings: Settings) -> Client:
    """Open a client; each thread has its own."""
    return Client(settings.server_url, settings.token)


def deploy(settings: Settings) -> float:
    """Commit what is measured and wait until it serves; gives the seconds that it took."""
    admin = AdminClient({"bootstrap.servers": settings.kafka})
    if TOPIC not in admin.list_topics(timeout=10).topics:
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([topic])[TOPIC].result(30)
    began = time.monotonic()
    connect(settings).commit("benchmark", datasets=DATASETS, featuresets=FEATURESETS, tell=say)
    return time.monotonic() - began
