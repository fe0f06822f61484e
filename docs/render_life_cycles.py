# ruff: noqa: INP001
"""Writes the state diagrams of `docs/life-cycles.md` from the ledger's state machines.

Run it as `python -m docs.render_life_cycles`. A test compares the page with the code.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from narthex_ledger.model import states

PAGE: Final = Path(__file__).parent / "life-cycles.md"
MACHINES: Final[dict[str, Mapping[enum.StrEnum, frozenset[enum.StrEnum]]]] = {
    "commit": dict(states.COMMIT_NEXT),
    "promotion": dict(states.PROMOTION_NEXT),
    "asset": dict(states.ASSET_NEXT),
    "creation": dict(states.CREATE_NEXT),
    "destruction": dict(states.DESTROY_NEXT),
    "offline query": dict(states.OFFLINE_NEXT),
}
"""Each state machine by the name of its drawing's mark; its first state is the initial one."""

_DRAWING = re.compile(
    r"(?<=<!-- states: )([a-z ]+)( -->\n)(```mermaid\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)


def rendered(page: str) -> str:
    """Return the page with each marked drawing replaced.

    Raises:
        KeyError: The page marks a drawing of an unknown state machine.
    """
    return _DRAWING.sub(lambda mark: mark[1] + mark[2] + _block(MACHINES[mark[1]]), page)


def _block(machine: Mapping[enum.StrEnum, frozenset[enum.StrEnum]]) -> str:
    return "\n".join(["```mermaid", "stateDiagram-v2", *_transitions(machine), "```", ""])


def _transitions(machine: Mapping[enum.StrEnum, frozenset[enum.StrEnum]]) -> Iterator[str]:
    order = list(machine)
    yield f"    [*] --> {order[0]}"
    for state, following in machine.items():
        for one in sorted(following, key=order.index):
            yield f"    {state} --> {one}"
        if not following:
            yield f"    {state} --> [*]"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
