"""Runs all programs under Fennel's client and under `import fennel`, and compares what they did."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.peer.environment import peers_command
from tests.peer.templates import Program, programs

ROOT: Final = Path(__file__).resolve().parents[2]
PROBES: Final = Path(__file__).with_name("client_probes.py")
STAGES: Final = ("import", "define", "commit", "log", "read", "done")

Outcome: TypeAlias = Mapping[str, Any]


def run(place: Path) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """Run all programs twice, in a directory; return the outcomes of Fennel's client, and ours."""
    for number, one in enumerate(programs()):
        (place / f"program_{number:04}.py").write_text(one.module, encoding="utf-8")
    with ThreadPoolExecutor() as threads:
        theirs, ours = threads.map(
            outcomes, (peers_command(PROBES, str(place)), own_command(PROBES, str(place)))
        )
    return theirs, ours


def own_command(script: Path, *arguments: str) -> list[str]:
    """Return the command of a script under `import fennel` of Narthex."""
    return [sys.executable, "-m", "narthex.compat.fennel", str(script), *arguments]


def outcomes(command: Sequence[str]) -> Sequence[Outcome]:
    """Run programs by a command; return their outcomes."""
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def difference(program: Program, theirs: Outcome, ours: Outcome) -> str | None:
    """Return how an outcome differs from Fennel's; None if it does not.

    An error may come earlier than Fennel's, and must be of each class that Fennel's is of. Columns
    of a frame have no order, nor have rows of a whole dataset.
    """
    if theirs["stage"] == "done":
        if ours["stage"] != "done":
            return f"is refused ({ours['stage']}): {ours['said']}"
        ordered = "get_dataset_df" not in program.module
        wanted, found = (_comparable(one["shown"], ordered=ordered) for one in (theirs, ours))
        return None if wanted == found else f"{wanted} is {found}"
    if ours["stage"] == "done":
        return f"is not refused: {theirs['said']}"
    if STAGES.index(ours["stage"]) > STAGES.index(theirs["stage"]):
        return f"is refused later, at {ours['stage']}, not at {theirs['stage']}"
    missing = set(theirs["is"]) - set(ours["is"])
    return f"the error is not {sorted(missing)}: {ours['said']}" if missing else None


def _comparable(shown: Any, *, ordered: bool) -> Any:
    match shown:
        case {"columns": columns, "rows": rows}:
            names = [*columns]
            order = sorted(range(len(names)), key=lambda at: names[at])
            made = [[row[at] for at in order] for row in rows]
            kept = made if ordered else sorted(made, key=json.dumps)
            return {"columns": [[names[at], columns[names[at]]] for at in order], "rows": kept}
        case list():
            return [_comparable(one, ordered=ordered) for one in shown]
        case _:
            return shown
