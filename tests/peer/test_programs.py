"""Programs of Fennel's users do what they do with Fennel's client, in process."""

import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.peer.comparison import difference, run
from tests.peer.templates import programs

pytestmark = pytest.mark.acceptance  # the environment of the client needs a network

REASONS: Final = Path(__file__).with_name("program_reasons.toml")
KINDS: Final = {"contract", "defect", "refused", "accepted", "dtype"}


def test_outcomes_equal_fennels_or_have_a_reason(tmp_path: Path) -> None:
    listed = tomllib.loads(REASONS.read_text())["reason"]
    reasons = [text for reason in listed for text in reason["programs"]]
    chosen = programs()

    theirs, ours = run(tmp_path)

    found = {
        one.label: wrong
        for one, their, our in zip(chosen, theirs, ours, strict=True)
        if (wrong := difference(one, their, our)) is not None
    }
    assert {label: wrong for label, wrong in found.items() if label not in reasons} == {}
    assert [label for label in reasons if label not in found] == []
    assert {reason["kind"] for reason in listed} <= KINDS
    assert len({one.label for one in chosen}) == len(chosen) > 600
