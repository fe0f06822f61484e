"""The output of `narthex supervisor --json`."""

import json
import subprocess
import sys

LOGGING = """
import structlog
from narthex_spark_apps.cli.commands import log_as_json

log = structlog.get_logger()
log_as_json()
log.info("lease_lost", slot=3)
secret = "hunter2"
try:
    raise ValueError("two\\nlines")
except ValueError:
    log.exception("job_failed")
"""


def test_each_event_is_one_json_object_without_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True
    )

    lost, failed = (json.loads(line) for line in done.stdout.splitlines())
    assert (lost["event"], lost["slot"], lost["level"]) == ("lease_lost", 3, "info")
    assert failed["exception"][0]["exc_value"] == "two\nlines"
    assert "hunter2" not in done.stdout
