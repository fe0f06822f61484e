"""HyperLogLog with 2^14 registers: a list of hashes while there are few, then registers.

The estimator is Ertl's (2017, "New cardinality estimation algorithms for HyperLogLog
sketches"): unbiased over the whole range, without tables. Whether a sketch is a list or
registers is a function of its set of hashes, regardless of splits and merges.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Sketch: TypeAlias = list[int] | bytes
"""Ascending 64-bit hashes, or one byte per register."""

EXACT_UP_TO = 1024
_INDEX_BITS = 14
_REGISTERS = 1 << _INDEX_BITS
_RANK_BITS = 64 - _INDEX_BITS
_RANK_MASK = (1 << _RANK_BITS) - 1


def hash_of(canonical: bytes) -> int:
    """Hash a value's canonical bytes to 64 bits, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest())


def of_hashes(hashes: set[int]) -> Sketch:
    """Return the sketch of a set of hashes."""
    if len(hashes) <= EXACT_UP_TO:
        return sorted(hashes)
    return _with_hashes(bytes(_REGISTERS), hashes)


def union(sketches: Sequence[Sketch]) -> Sketch:
    """Return the sketch of the values of all sketches."""
    hashes: set[int] = set()
    registers: bytes | None = None
    for sketch in sketches:
        if isinstance(sketch, list):
            hashes.update(sketch)
        else:
            registers = sketch if registers is None else bytes(map(max, registers, sketch))
    return of_hashes(hashes) if registers is None else _with_hashes(registers, hashes)


def estimate(sketch: Sketch) -> int:
    """Estimate the number of values."""
    if isinstance(sketch, list):
        return len(sketch)
    ranks = [0] * (_RANK_BITS + 2)
    for register in sketch:
        ranks[register] += 1
    total = _REGISTERS * _tau(1 - ranks[-1] / _REGISTERS)
    for rank in range(_RANK_BITS, 0, -1):
        total = 0.5 * (total + ranks[rank])
    total += _REGISTERS * _sigma(ranks[0] / _REGISTERS)
    return round(_REGISTERS * _REGISTERS / (2 * math.log(2) * total))


def _with_hashes(registers: bytes, hashes: Iterable[int]) -> bytes:
    raised = bytearray(registers)
    for value in hashes:
        index = value >> _RANK_BITS
        rank = _RANK_BITS - (value & _RANK_MASK).bit_length() + 1
        raised[index] = max(raised[index], rank)
    return bytes(raised)


def _sigma(share: float) -> float:
    if share == 1:
        return math.inf
    weight, total, before = 1.0, share, -1.0
    while total != before:
        share *= share
        before = total
        total += share * weight
        weight += weight
    return total


def _tau(share: float) -> float:
    if share in {0.0, 1.0}:
        return 0.0
    weight, total, before = 1.0, 1 - share, -1.0
    while total != before:
        share = math.sqrt(share)
        before = total
        weight *= 0.5
        total -= (1 - share) ** 2 * weight
    return total / 3
