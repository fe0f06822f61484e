"""Everything that is installed is named by a lock file, with its hash."""

import re
from typing import Final

import pytest

from tests.supply_chain.licences import ROOT

LOCKS: Final = (
    "requirements.lock",
    "requirements-build.lock",
    "docs/site/requirements.lock",
    "tests/supply_chain/requirements.lock",
)
INSTALLS: Final = re.compile(r"\bpip (?:install|sync) .*|(?:\buv|\$\(UV\)) build .*")
CHECKED: Final = ("--require-hashes", "--require-build-hashes")
OWN_WHEELS: Final = "--no-deps /wheels/*.whl"
"""The end of the command by which the image installs its own wheels, from no index."""


def unchecked(text: str) -> list[str]:
    """Return the commands that install or build something whose hash nothing checks."""
    commands = re.split(r"\n|&&|;", text.replace("\\\n", " "))
    found = [match[0] for one in commands if (match := INSTALLS.search(one))]
    return [
        command
        for command in found
        if not any(option in command for option in CHECKED)
        and OWN_WHEELS not in command
        and not ("pip sync" in command and command.split()[-1] in LOCKS)
    ]


@pytest.mark.parametrize("file", ["Makefile", "docker/Dockerfile"])
def test_every_command_that_installs_checks_hashes(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")

    assert len(INSTALLS.findall(text)) >= 4
    assert unchecked(text) == []


def test_a_command_that_checks_no_hash_is_found() -> None:
    assert unchecked("python -m venv /x && /x/bin/pip install uv==1\n$(UV) build --quiet .") == [
        "pip install uv==1",
        "$(UV) build --quiet .",
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_file_has_a_version_and_a_hash(lock: str) -> None:
    lines = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    packages = [line for line in lines if line.strip() and not line.strip().startswith("#")]

    assert packages
    assert [line for line in packages if "==" not in line or "--hash=sha256:" not in line] == []
