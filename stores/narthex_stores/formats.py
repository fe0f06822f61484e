"""The version of the format in which this release writes each kind of store.

A change of what is written, by which an earlier release would misread it, raises the number, and
this release still reads the earlier one or rebuilds the store: indexes, histories and states of
jobs from their logs. `tests/stack/upgrades` reads stores that an earlier release wrote.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STORE_FORMATS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "logs": 1,
        "indexes": 1,
        "histories": 1,
        "checkpoints": 1,
        "snapshots": 1,
    }
)
