"""Processes that read the ledger start only once the server has made the keys of the installation.

Without the ring they would check nothing, for as long as they run.
"""

from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from narthex.cli import make_app as make_cli
from narthex.settings import environment_of
from narthex_server.reads.__main__ import main as read_process
from tests.server.conftest import NOBODY, settings_at

pytestmark = pytest.mark.pure

NO_LEDGER = "postgresql+psycopg2://nobody@127.0.0.1:1/none?connect_timeout=1"


@pytest.fixture(autouse=True)
def fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no server has started yet."""
    settings = settings_at(tmp_path, dsn=NO_LEDGER, kafka=NOBODY)
    for name, value in environment_of(
        attrs.evolve(settings, reads_url="http://127.0.0.1:1")
    ).items():
        monkeypatch.setenv(name, value)
    return settings.verifying_key


def test_a_read_process_refuses_to_start(
    fresh_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert read_process() == 1
    assert f"reads cannot start: `{fresh_home}` is missing" in capfd.readouterr().err


def test_a_supervisor_refuses_to_start(fresh_home: Path) -> None:
    refused = CliRunner().invoke(make_cli(), ["supervisor"])

    assert refused.exit_code == 1
    assert f"`{fresh_home}` is missing" in refused.stderr
