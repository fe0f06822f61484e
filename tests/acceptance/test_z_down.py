"""At the end of the story the platform is stopped and wiped, as the pages say."""

import sys
from pathlib import Path
from typing import Final

import pytest

from narthex_stack.install.installation import load_installation
from narthex_stack.local_services.service_plan import cluster
from tests.acceptance.platform import Platform
from tests.guides.pages import DOCS, README, blocks
from tests.guides.shell import Shell, environment
from tests.platform_processes import processes_of

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

KEPT: Final = {
    "alerts.toml",
    "config.toml",
    "policy.toml",
    "secrets.key",
    "signing.key",
    "signing.pub",
}
"""The files of a wiped home: those that people edit, and the keys of backups."""


@pytest.fixture(scope="module", autouse=True)
def _branches_end() -> None:
    """Delete no branches: no server is there to ask when this module ends."""


def test_the_commands_of_the_pages_stop_and_wipe_the_platform(
    platform: Platform, tmp_path: Path
) -> None:
    home = platform.settings.home
    (down,) = blocks(README, "sh down")
    (again,) = blocks(DOCS / "guide" / "quickstart.md", "sh down")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    shell = Shell(directory=tmp_path, variables=environment(home))
    data = cluster(load_installation(platform.stack.layout)).data
    assert {one.name() for one in processes_of(home)} >= {"java", "postgres", "python"}

    stopped = shell.types(down.text)

    assert stopped.splitlines()[-1] == "stopped"
    assert processes_of(home) == []
    assert (home / "services.json").is_file()
    assert data.is_dir(), "the state is there"

    wiped = shell.types(again.text)

    assert wiped.splitlines()[-2:] == ["stopped", "stopped and wiped"]
    left = {path.name for path in home.iterdir()}
    assert {"config.toml", "secrets.key", "signing.key"} <= left <= KEPT
    assert not data.exists()
