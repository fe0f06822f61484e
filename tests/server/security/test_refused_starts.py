"""A process that cannot start writes one line with the reason.

Those that only read the ledger start once the server has made the keys of the installation: without
the ring they would check nothing, for as long as they run.
"""

from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from narthex.cli import make_app as make_cli
from narthex.settings import Settings, environment_of
from narthex_ledger import load_signing
from narthex_server.__main__ import serve
from narthex_server.reads.__main__ import main as read_process
from tests.server.conftest import NOBODY, settings_at

NO_LEDGER = "postgresql+psycopg2://nobody@127.0.0.1:1/none?connect_timeout=1"
CAUSE = 'connection to server at "127.0.0.1", port 1 failed'
NO_SERVER = "^narthex: the server cannot start:"


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An installation in whose home no server has started yet, and whose ledger is away."""
    found = settings_at(tmp_path, dsn=NO_LEDGER, kafka=NOBODY)
    reads = attrs.evolve(found, reads_url="http://127.0.0.1:1")
    for name, value in environment_of(reads).items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def keys(settings: Settings) -> None:
    load_signing(settings.signing_key, settings.verifying_key)


def test_a_read_process_refuses_to_start_without_keys(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    assert read_process() == 1
    expected = f"narthex: reads cannot start: `{settings.verifying_key}` is missing"
    assert capfd.readouterr().err.startswith(expected)


def test_a_supervisor_refuses_to_start_without_keys(settings: Settings) -> None:
    refused = CliRunner().invoke(make_cli(), ["supervisor"])

    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"`{settings.verifying_key}` is missing")


@pytest.mark.usefixtures("keys")
def test_a_read_process_refuses_to_start_without_a_ledger(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert read_process() == 1
    expected = f"narthex: reads cannot start: [NX1133] the ledger does not answer: {CAUSE}"
    assert capfd.readouterr().err.startswith(expected)


def test_the_server_refuses_to_start_without_a_ledger() -> None:
    with pytest.raises(
        SystemExit,
        match=r"^narthex: the server cannot start: \[NX1133\] the ledger does not answer",
    ):
        serve()


def test_the_server_refuses_to_start_without_an_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NARTHEX_INSTALL_ID")

    with pytest.raises(
        SystemExit, match=r"^narthex: the server cannot start: .* has no install_id"
    ):
        serve()
