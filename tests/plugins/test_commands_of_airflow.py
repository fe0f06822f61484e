"""The command line of Airflow takes the commands of the guides."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.pages import DOCS, blocks, commands, pages_with
from tests.plugins.conftest import ROOT, RUN_S, Ask, airflow_environment

pytestmark = pytest.mark.airflow

GUIDE = DOCS / "guide"
DAGS = ROOT / "plugins" / "narthex_plugins" / "dags"

_ASKED = """
import os
from airflow.models import Connection
from airflow.utils.session import create_session
from narthex_plugins.platform_client import platform
with create_session() as session:
    found = session.query(Connection).filter_by(conn_id="narthex_default").one()
    os.environ["AIRFLOW_CONN_NARTHEX_DEFAULT"] = found.as_json()
    session.delete(found)
from airflow.cli.cli_parser import get_parser
dag = vars(get_parser().parse_args({words}))["dag_id"]
answer = [platform().url("commits"), platform().headers, dag]
"""
"""Take the connection out of the database, hand it to a hook as a task gets it; parse words."""


def test_airflow_takes_the_commands_of_the_guides(
    ask: Ask, airflow_home: Path, tmp_path: Path
) -> None:
    (adding,) = (block for page in pages_with("sh airflow") for block in blocks(page, "sh airflow"))
    (backfill,) = (
        command.words[1:]
        for block in blocks(GUIDE / "quality.md", "sh elsewhere")
        for command in commands(block.text)
        if command.words[0] == "airflow"
    )
    own = Path(sys.executable).parent

    done = subprocess.run(
        ["bash", "-c", f'export PATH="{own}:$PATH"\n{adding.text}'],
        env=airflow_environment(airflow_home) | {"TOKEN": "a-token-of-tests"},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    url, headers, dag = ask(_ASKED.replace("{words}", str(backfill)), NARTHEX_HOME=str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert url == "https://narthex.example.org:8400/api/v1/commits"
    assert headers == {"Authorization": "Bearer a-token-of-tests"}
    assert (DAGS / f"{dag}.py").is_file()
