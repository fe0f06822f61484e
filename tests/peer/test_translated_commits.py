"""Commits of the peer's client mean what its own tests mean under `import fennel`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peer.environment import peers_command
from tests.peer.wheel import cache, fetch, unpack

pytestmark = pytest.mark.acceptance  # the environment of the client needs a network

ROOT = Path(__file__).resolve().parents[2]
REFUSED = {
    "test_complex_window_join": ["NX811"],
    "test_hopping_window_operator": ["NX811"],
    "test_search": ["NX901"],
    "test_session_window_operator": ["NX811"],
    "test_tumbling_window_operator": ["NX811"],
}
"""The modules that cannot be translated: aggregates of windowed groups, and BigQuery."""


def test_translated_definitions_equal_those_of_the_same_files(tmp_path: Path) -> None:
    sent, tests = tmp_path / "sent", unpack(fetch(cache()), tmp_path / "tests")
    sent.mkdir()
    sender = Path(__file__).with_name("send_commits.py")
    subprocess.run(peers_command(sender, str(sent)), check=True)

    command = [sys.executable, "-m", "tests.peer.translated", str(sent), str(tests)]
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    found = json.loads(run.stdout)
    assert (found["different"], found["refused"]) == ([], REFUSED)
    assert found["equal"] > 100
