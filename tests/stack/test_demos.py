"""The demos of the README say at their end that all is as it should be."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from narthex_stack.operator.stack import Stack
from tests.guides.pages import README, ROOT, blocks
from tests.guides.shell import Shell, environment
from tests.platform_processes import processes_of

pytestmark = [pytest.mark.stack, pytest.mark.nightly]

DEMO_S: Final = 900.0


def last_object(printed: str) -> dict[str, Any]:
    """Return the last line of a demo: one object."""
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_the_demos_of_the_readme_work(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (block,) = blocks(README, "sh demo")
    flights, quality, down = block.text.splitlines()
    # `make` would tell of another `make` above it, and demos of CI stop the platform themselves.
    outside = {"CI", "ARGS", *(name for name in os.environ if name.startswith("MAKE"))}
    variables = {name: value for name, value in environment(home).items() if name not in outside}
    shell = Shell(directory=ROOT, variables=variables, within_s=DEMO_S)

    try:
        streamed = last_object(shell.prints(flights))
        running = Stack(home).status()
        seen = last_object(shell.prints(quality))
        again = Stack(home).status()
        stopped = shell.types(down)
        left = processes_of(home)
    finally:
        Stack(home).stop()
        if Stack(home).layout.secrets.exists():
            Stack(home).wipe()

    assert streamed["answers_compared"] > 0
    assert (streamed["answers_unequal"], streamed["freshness_probes_missed"]) == (0, 0)
    assert min(streamed["rows_replayed"].values()) > 0
    assert seen["expectation"]["alert"] == "firing"
    assert (seen["erasure"]["is_valid"], seen["erasure"]["covers"]) == (True, True)
    assert running.is_well
    assert running.operator == again.operator, "the second demo finds the platform of the first"
    assert stopped.splitlines()[-1] == "stopped"
    assert left == []
