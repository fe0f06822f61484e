# ruff: noqa: INP001
"""`python -m docs.render_migrating`: the table of public names in `guide/migrating.md`."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.peer.templates import SERVED, USES, Program, programs

GUIDE: Final = Path(__file__).parent / "guide" / "migrating.md"
REASONS: Final = Path(__file__).parents[1] / "tests" / "peer" / "program_reasons.toml"
BEGIN: Final = "<!-- written by `python -m docs.render_migrating` -->\n"
END: Final = "<!-- end of the table -->\n"


@attrs.frozen(kw_only=True)
class Reason:
    """A reason why programs do something else than with Fennel's client.

    Attributes:
        number: Its number in the list below the table.
        kind: `contract`, `defect`, `refused`, `accepted`, `dtype`, or `server`.
    """

    number: int
    kind: str
    sentence: str
    programs: Sequence[str]


def reasons() -> Sequence[Reason]:
    """Return all reasons, those of the server last."""
    read = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    listed = [*read["reason"], *(one | {"kind": "server"} for one in read["server"])]
    return [Reason(number=number, **one) for number, one in enumerate(listed, start=1)]


def render(known: Sequence[Reason]) -> str:
    """Return the table and the list of the differences."""
    by_name: dict[str, list[Program]] = {}
    for one in programs():
        by_name.setdefault(one.name, []).append(one)
    lines = ["| name | valid use | boundary | invalid use | on a server |", "|---|---|---|---|---|"]
    here = [one for one in known if one.kind != "server"]
    server = [one for one in known if one.kind == "server"]
    for name, chosen in sorted(by_name.items(), key=lambda item: item[0].lower()):
        uses = [_cell([one for one in chosen if one.use == use], here) for use in USES]
        served = _cell([one for one in chosen if one.use in SERVED], server)
        lines.append(f"| {' | '.join([f'`{name}`', *uses, served])} |")
    lines += ["", *(f"{one.number}. {one.sentence} ({_KINDS[one.kind]})" for one in known)]
    return "\n".join(lines) + "\n"


_KINDS: Final[Mapping[str, str]] = {
    "accepted": "accepted only here",
    "contract": "another meaning",
    "defect": "a defect of Fennel's test client",
    "dtype": "the same values",
    "refused": "refused only here",
    "server": "on a server",
}


def _cell(chosen: Sequence[Program], known: Sequence[Reason]) -> str:
    """Return how many programs do the same, and the numbers of the reasons of the others."""
    if not chosen:
        return ""
    labels = {one.label for one in chosen}
    apply = [one for one in known if labels.intersection(one.programs)]
    other = sum(len(labels.intersection(one.programs)) for one in apply)
    if not other:
        return str(len(chosen))
    numbers = ", ".join(str(one.number) for one in apply)
    return f"{len(chosen) - other} of {len(chosen)} ({numbers})"


def page(text: str) -> str:
    """Return the guide with the present table."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{render(reasons())}\n{END}{after}"


def main() -> None:
    """Write the table."""
    GUIDE.write_text(page(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
