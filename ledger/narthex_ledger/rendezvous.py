"""Who should hold a slot: the same answer on every engine, from the same list of engines."""

import hashlib
import math
from collections.abc import Mapping


def preferred_engine(slot_space: str, slot: int, weights: Mapping[str, float]) -> str | None:
    """Give the engine that should hold the slot (weighted rendezvous), None without engines.

    It is a hint: disagreement costs a handover, never safety. When an engine comes or goes, only
    its own slots move.
    """
    return max(
        weights,
        key=lambda engine: (_score(slot_space, slot, engine, weights[engine]), engine),
        default=None,
    )


def _score(slot_space: str, slot: int, engine: str, weight: float) -> float:
    digest = hashlib.sha256(f"{slot_space}/{slot}/{engine}".encode()).digest()
    uniform = (int.from_bytes(digest[:8], "big") + 1) / (2**64 + 1)
    return -weight / math.log(uniform)
