"""Choose the engine of each slot, with the same result on every engine."""

import hashlib
import math
from collections.abc import Mapping


def preferred_engines(
    slot_space: str, count: int, weights: Mapping[str, float]
) -> tuple[str | None, ...]:
    """Return the engine that should hold each slot; None for all of them without engines.

    It is weighted rendezvous hashing, capped at each engine's share of the slots: of equal engines
    none has two slots more than another. It is a hint: disagreement costs a handover, never
    safety. When an engine joins or leaves, few slots move besides its own.
    """
    room = _shares(count, weights)
    found: dict[int, str] = {}
    wishes = sorted(
        (
            (_score(slot_space, slot, engine, weight), engine, slot)
            for slot in range(count)
            for engine, weight in weights.items()
        ),
        reverse=True,
    )
    for _, engine, slot in wishes:
        if slot not in found and room[engine]:
            found[slot] = engine
            room[engine] -= 1
    return tuple(found.get(slot) for slot in range(count))


def _shares(count: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return the number of slots of each engine: its share by weight, remainders by size."""
    total = sum(weights.values())
    exact = {engine: count * weight / total for engine, weight in weights.items()}
    shares = {engine: math.floor(share) for engine, share in exact.items()}
    by_remainder = sorted(exact, key=lambda engine: (shares[engine] - exact[engine], engine))
    for engine in by_remainder[: count - sum(shares.values())]:
        shares[engine] += 1
    return shares


def _score(slot_space: str, slot: int, engine: str, weight: float) -> float:
    digest = hashlib.sha256(f"{slot_space}/{slot}/{engine}".encode()).digest()
    uniform = (int.from_bytes(digest[:8], "big") + 1) / (2**64 + 1)
    return -weight / math.log(uniform)
