"""Everything that is installed is named by a lock file, with its hash."""

import re
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.licences import ROOT
from tests.wheels.declared_project import NARTHEX

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


def test_the_image_has_what_its_wheel_needs_in_the_tested_versions() -> None:
    tested, image = packages("requirements.lock"), packages("docker/requirements.lock")
    declared = {
        canonicalize_name(needed.name)
        for needed in (*NARTHEX.dependencies, *NARTHEX.extras["platform"])
        if needed.marker is None or needed.marker.evaluate()
    }

    assert declared <= image.keys()
    assert image.items() <= tested.items()


def test_the_image_has_no_tools_of_tests() -> None:
    image = packages("docker/requirements.lock")
    tools = {"pytest", "hypothesis", "mypy", "ruff", "playwright", "moto"}
    declared = {
        canonicalize_name(Requirement(line).name)
        for line in NARTHEX.declared["dependency-groups"]["dev"]
    }

    assert tools <= declared
    assert tools & image.keys() == set()
