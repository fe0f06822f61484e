"""Programs of Fennel's users do what they do with Fennel's client, in process."""

from pathlib import Path

import pytest

from docs.render_migrating import reasons
from tests.peer.comparison import difference, run
from tests.peer.templates import programs

# The environment of the client needs a network.
pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_outcomes_equal_fennels_or_have_a_reason(tmp_path: Path) -> None:
    listed = [text for one in reasons() if one.kind != "server" for text in one.programs]
    chosen = programs()

    theirs, ours = run(tmp_path)

    outcomes = list(zip(chosen, theirs, ours, strict=True))
    found = {
        one.label: wrong
        for one, their, our in outcomes
        if (wrong := difference(one, their, our)) is not None
    }
    assert {label: wrong for label, wrong in found.items() if label not in listed} == {}
    assert [label for label in listed if label not in found] == []
    broken = [one.label for one, _, our in outcomes if our["stage"] == "import"]
    unknown = [
        one.label
        for one, their, our in outcomes
        if one.use == "valid" and "done" not in {their["stage"], our["stage"]}
    ]
    assert (broken, unknown) == ([], [])
