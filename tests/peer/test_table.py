"""The table of Fennel's public names in the guide."""

import tomllib
from pathlib import Path
from typing import Final

from docs.render_migrating import GUIDE, page, reasons
from tests.peer.templates import USES, programs

REASONS: Final = Path(__file__).with_name("program_reasons.toml")
KINDS: Final = {"contract", "defect", "refused", "accepted", "dtype"}


def test_programs_and_reasons_are_well_formed() -> None:
    chosen, known = programs(), reasons()
    labels = [one.label for one in chosen]

    assert len(set(labels)) == len(labels) > 600
    assert {one.use for one in chosen} == set(USES)
    for one in chosen:
        compile(one.module, one.label, "exec")
    assert {one.kind for one in known} == KINDS | {"server"}
    assert {text for one in known for text in one.programs} <= set(labels)
    in_process = [text for one in known if one.kind != "server" for text in one.programs]
    assert len(set(in_process)) == len(in_process)
    assert tomllib.loads(REASONS.read_text()).keys() == {"reason", "server"}


def test_the_guide_has_the_present_table() -> None:
    text = GUIDE.read_text(encoding="utf-8")

    assert page(text) == text, "run `python -m docs.render_migrating`"
