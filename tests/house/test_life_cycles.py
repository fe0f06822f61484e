"""The state diagrams of the documentation are those of the ledger's state machines."""

from docs.render_life_cycles import MACHINES, PAGE, rendered


def test_the_diagrams_are_written_from_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert rendered(page) == page, "run `python -m docs.render_life_cycles`"


def test_every_state_machine_has_a_diagram() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in MACHINES if f"<!-- states: {name} -->" not in page] == []
