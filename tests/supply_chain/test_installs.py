"""Everything that is installed is named by a lock file, with its hash."""

import re
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.licences import ROOT
from tests.wheels.projects import PROJECTS

LOCKS: Final = (
    "requirements.lock",
    "requirements-build.lock",
    "docker/requirements.lock",
    "docs/site/requirements.lock",
    "tests/supply_chain/requirements.lock",
)
INSTALLS: Final = re.compile(r"\bpip (?:install|sync) .*|(?:\buv|\$\(UV\)) build .*")
CHECKED: Final = ("--require-hashes", "--require-build-hashes")
OWN_WHEELS: Final = "--no-deps /wheels/*.whl"
"""The end of the command by which the image installs its own wheels, from no index."""


def packages(lock: str) -> dict[str, str]:
    """Return the packages of a lock file by their names, each with its version and hashes."""
    lines = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found = (" ".join(line.split()) for line in lines)
    return {
        canonicalize_name(line.partition("==")[0]): line
        for line in found
        if line and not line.startswith("#")
    }


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
    found = packages(lock)

    assert found
    assert [
        line for line in found.values() if "==" not in line or "--hash=sha256:" not in line
    ] == []


def test_the_image_has_what_its_wheels_need_in_the_tested_versions() -> None:
    tested, image = packages("requirements.lock"), packages("docker/requirements.lock")
    declared = {
        canonicalize_name(needed.name)
        for one in PROJECTS
        for needed in map(Requirement, one.declared["project"]["dependencies"])
        if needed.marker is None or needed.marker.evaluate()
    } - {one.name for one in PROJECTS}

    assert declared <= image.keys()
    assert image.items() <= tested.items()


def test_the_image_has_no_tools_of_tests() -> None:
    text = (ROOT / "requirements.in").read_text(encoding="utf-8")
    _, found, tools = text.partition("# what tests and checks need\n")
    names = {canonicalize_name(Requirement(line).name) for line in tools.split()}

    assert found
    assert names
    assert names & packages("docker/requirements.lock").keys() == set()
