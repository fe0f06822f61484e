"""The logs of processes, in both forms: no value of a variable is in them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from narthex.settings import NotInstalledError, Settings

LOGGING = """
import structlog, sys
from narthex_stores import {opening}

log = structlog.get_logger()
{opening}(sys.stderr)
log.info("lease_lost", slot=3)
secret = "hunter2"
try:
    raise ValueError("two\\nlines")
except ValueError:
    log.exception("job_failed")
"""


def logged(opening: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOGGING.format(opening=opening)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_each_event_is_one_json_object_without_variables() -> None:
    text = logged("log_json")

    lost, failed = (json.loads(line) for line in text.splitlines())
    assert (lost["event"], lost["slot"], lost["level"]) == ("lease_lost", 3, "info")
    assert failed["exception"][0]["exc_value"] == "two\nlines"
    assert "hunter2" not in text


def test_lines_have_tracebacks_without_variables() -> None:
    text = logged("log_lines")

    lost, failed, *trace = text.splitlines()
    assert lost.endswith("lease_lost                     slot=3")
    assert "job_failed" in failed
    assert trace[0].startswith("Traceback")
    assert "hunter2" not in text


PROCESSES = {
    "server": "server/narthex_server/__main__.py",
    "reads": "server/narthex_server/reads/__main__.py",
    "supervisor": "spark_apps/narthex_spark_apps/cli/supervisor_process.py",
    "driver": "spark_apps/narthex_spark_apps/supervision/runner/process_runner.py",
    "standing task": "spark_apps/narthex_spark_apps/supervision/runner/task_runner.py",
    "backfill": "spark_apps/narthex_spark_apps/jobs/bounded_run.py",
    "inspection": "spark_apps/narthex_spark_apps/row_inspection/inspection_process.py",
}


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_that_logs_opens_its_log(process: str) -> None:
    text = (Path(__file__).parents[2] / PROCESSES[process]).read_text(encoding="utf-8")

    assert "    open_log(settings" in text


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    places = ("index_dir", "history_dir", "checkpoint_dir", "files_root", "jars_dir", "home")
    texts = ("ledger_dsn", "kafka", "server_url", "token")
    values: dict[str, Any] = dict.fromkeys(places, tmp_path) | dict.fromkeys(texts, "")

    with pytest.raises(NotInstalledError, match="`NARTHEX_LOG_FORMAT` is `xml`; set it to"):
        Settings(**values, install_id="tests000", log_format="xml")
