"""Offline queries and small backfills: a driver runs each once, beside its live jobs.

Each runs in a thread of its own, on the Spark session of the driver.
"""

import pkgutil
import threading
from typing import Final

from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import DesiredAssignments, OfflineRun

ANSWER: Final = "narthex_spark_apps.jobs.carried_requests:answer"
FILL: Final = "narthex_spark_apps.jobs.carried_requests:fill"


class Requests:
    """The offline queries and backfills of one driver; each is begun once."""

    def __init__(self, settings: Settings, session: SparkSession, send: Send) -> None:
        """Prepare; `send` sends to the supervisor, from any thread."""
        self._settings = settings
        self._session = session
        self._send = send
        self._begun: set[str] = set()

    def __call__(self, desired: DesiredAssignments) -> None:
        """Begin what is new in the newest assignments."""
        for run in desired.offline:
            self._begin(f"offline-{run.request_id}", ANSWER, run)
        for commit_id in desired.backfills:
            self._begin(f"backfill-{commit_id}", FILL, commit_id)

    def _begin(self, name: str, function: str, request: OfflineRun | str) -> None:
        if name in self._begun:
            return
        self._begun.add(name)
        threading.Thread(
            target=self._carry_out, args=(function, request), name=name, daemon=True
        ).start()

    def _carry_out(self, function: str, request: OfflineRun | str) -> None:
        # Imported now: a driver starts faster without the ledger, which no live job needs.
        pkgutil.resolve_name(function)(request, self._settings, self._session, self._send)
