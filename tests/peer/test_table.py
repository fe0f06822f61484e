"""The table of Fennel's public names in the guide, and its column about servers."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from docs.render_migrating import GUIDE, page, reasons
from tests.peer.templates import USES, programs

ROOT: Final = Path(__file__).resolve().parents[2]
PLANNED: Final = Path(__file__).with_name("planned.py")
REASONS: Final = Path(__file__).with_name("program_reasons.toml")
KINDS: Final = {"contract", "defect", "refused", "accepted", "dtype"}


def planned(place: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return whether a server accepts the commit of each program, by its label."""
    chosen = programs()
    for number, one in enumerate(chosen):
        (place / f"program_{number:04}.py").write_text(one.module, encoding="utf-8")
    command = [sys.executable, "-m", "narthex.compat.fennel", str(PLANNED), str(place)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {one.label: said for one, said in zip(chosen, lines, strict=True)}


def test_a_server_accepts_valid_commits_or_there_is_a_reason(tmp_path: Path) -> None:
    listed = [text for one in reasons() if one.kind == "server" for text in one.programs]

    said = planned(tmp_path)

    refused = {
        one.label: said[one.label]["said"]
        for one in programs()
        if one.use != "invalid" and not said[one.label]["accepted"]
    }
    assert {label: why for label, why in refused.items() if label not in listed} == {}
    assert [label for label in listed if label not in refused] == []


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
