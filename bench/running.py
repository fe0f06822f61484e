"""The platform that a benchmark runs on: a named one, or a new one that ends with the benchmark."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ending import ending_with_us
from bench.payments import DATASETS, FEATURESETS, TOPIC
from narthex.client import Client
from narthex.settings import Settings, load_settings
from narthex_stores import platform_broker

PARTITIONS = 2

POSTGRES: Final = "postgres"
"""The name of the processes of PostgreSQL."""


def say(story: str) -> None:
    """Print a line of progress on stderr."""
    print(story, file=sys.stderr, flush=True)


@contextmanager
def platform(home: Path | None) -> Iterator[Settings]:
    """Yield a healthy platform: that of `home`, left running; or a new one, wiped at the end."""
    if home is not None:
        yield _up(home)
        return
    place = Path(tempfile.mkdtemp(prefix="narthex-bench-"))
    with ending_with_us(place):
        yield _up(place)


def _up(home: Path) -> Settings:
    environment = {**os.environ, "NARTHEX_HOME": str(home)}
    subprocess.run([sys.executable, "-m", "narthex.cli", "up"], check=True, env=environment)
    return load_settings(environment)


def platform_processes(settings: Settings) -> Iterator[psutil.Process]:
    """Yield the processes of a platform, with those of its PostgreSQL.

    A backend of PostgreSQL shows its state in place of its environment, so it is known by its
    parent alone.
    """
    home = str(settings.home)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            belongs = process.environ().get("NARTHEX_HOME") == home
            if not (belongs or any(home in each for each in process.cmdline())):
                continue
            yield process
            if process.name() == POSTGRES:
                yield from process.children(recursive=True)


def pin(process: psutil.Process, core: int) -> None:
    """Let all threads of a process, and those that they start, run on one core only."""
    for thread in process.threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread.id, {core})


def connect(settings: Settings) -> Client:
    """Open a client; each thread has its own."""
    return Client(settings.server_url, settings.token)


def deploy(settings: Settings) -> float:
    """Commit the definitions and wait until they serve; return the seconds that it took."""
    admin = AdminClient({**platform_broker(settings).config()})
    if TOPIC not in admin.list_topics(timeout=10).topics:
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([topic])[TOPIC].result(30)
    began = time.monotonic()
    connect(settings).commit("benchmark", datasets=DATASETS, featuresets=FEATURESETS, tell=say)
    return time.monotonic() - began
