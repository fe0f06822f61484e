"""Expressions have the values, the dtypes and the errors that they have in Fennel's client."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.peer.environment import peers_python

pytestmark = pytest.mark.acceptance  # the environment of the client needs a network

ROOT = Path(__file__).resolve().parents[2]
PROBES = Path(__file__).with_name("expression_probes.py")
REASONS = Path(__file__).with_name("expression_reasons.toml")


def outcomes(*command: str) -> list[dict[str, Any]]:
    run = subprocess.run(
        [*command, str(PROBES)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str | None:
    """Return how an outcome differs from Fennel's; None if it does not."""
    if theirs["ended"] == "ok":
        wanted, found = ([one.get(part) for part in ("values", "dtype")] for one in (theirs, ours))
        return None if wanted == found else f"{wanted} is {ours.get('said', found)}"
    missing = set(theirs["is"]) - set(ours.get("is", theirs["is"]))
    return f"the error is not {sorted(missing)}: {ours['said']}" if missing else None


def test_outcomes_equal_fennels_or_have_a_reason() -> None:
    theirs = outcomes(str(peers_python()), "-P")
    ours = outcomes(sys.executable, "-m", "narthex.compat.fennel")
    listed = tomllib.loads(REASONS.read_text())["reason"]
    reasons = {text for reason in listed for text in reason["expressions"]}

    found = [
        (their["data"], their["text"], wrong)
        for their, our in zip(theirs, ours, strict=True)
        if (wrong := difference(their, our)) is not None
    ]

    assert [one for one in found if one[1] not in reasons] == []
    assert sorted(reasons - {text for _, text, _ in found}) == []
    assert len(theirs) > 900
