"""The command line of Airflow takes the commands of the guides."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.pages import DOCS, blocks, commands, pages_with
from tests.plugins.conftest import ROOT, RUN_S, Ask, airflow_environment

pytestmark = pytest.mark.airflow

_STORED = """
import os
from airflow.models import Connection
from airflow.utils.session import create_session
from narthex_plugins.platform_client import platform
with create_session() as session:
    found = session.query(Connection).filter_by(conn_id="narthex_default").one()
    os.environ["AIRFLOW_CONN_NARTHEX_DEFAULT"] = found.as_json()
    session.delete(found)
answer = [platform().url("commits"), platform().headers]
"""
"""Take the connection out of the database, and hand it to a hook as a task gets it."""

_PARSED = """
from airflow.cli.cli_parser import get_parser
answer = vars(get_parser().parse_args({words}))["dag_id"]
"""


def test_a_connection_is_added_as_the_guide_says(
    ask: Ask, airflow_home: Path, tmp_path: Path
) -> None:
    (page,) = pages_with("sh airflow")
    (block,) = blocks(page, "sh airflow")
    own = Path(sys.executable).parent

    done = subprocess.run(
        ["bash", "-c", f'export PATH="{own}:$PATH"\n{block.text}'],
        env=airflow_environment(airflow_home) | {"TOKEN": "a-token-of-tests"},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    url, headers = ask(_STORED, NARTHEX_HOME=str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert url == "https://narthex.example.org:8400/api/v1/commits"
    assert headers == {"Authorization": "Bearer a-token-of-tests"}


def test_backfills_of_audits_are_begun_as_the_guide_says(ask: Ask) -> None:
    (command,) = (
        one
        for block in blocks(DOCS / "guide" / "quality.md", "sh elsewhere")
        for one in commands(block.text)
        if one.words[0] == "airflow"
    )

    dag = ask(_PARSED.format(words=command.words[1:]))

    assert (ROOT / "plugins" / "narthex_plugins" / "dags" / f"{dag}.py").is_file()
