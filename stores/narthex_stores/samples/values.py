"""The values of keys as of an instant, from the states of a history, by the code of indexes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from narthex._ir import Cell, IndexSpec
from narthex_stores.facts.tables import LogRow
from narthex_stores.indexes import LmdbIndex, LookupResult


def values_as_of(
    spec: IndexSpec,
    states: Sequence[LogRow],
    keys: Sequence[tuple[Cell, ...]],
    *,
    as_of: int,
    newest: int | None,
) -> list[LookupResult | None]:
    """Look up keys as of an instant, as an online query does.

    Args:
        spec: The index of the dataset, whether it has one or not.
        states: All states of the rows that ever had one of the keys.
        keys: The keys; the result has their order, and None for those without a row.
        as_of: The instant, microseconds.
        newest: The greatest event time of a row of the whole dataset.
    """
    with tempfile.TemporaryDirectory(prefix="narthex-values-") as directory:
        path = Path(directory) / "index"
        path.mkdir()
        index = LmdbIndex(path, spec)
        try:
            index.apply([state.fact for state in states], offsets={}, epoch=1)
            with index.read() as reader:
                found: list[LookupResult | None] = reader.with_newest(newest).lookup(
                    keys, [as_of] * len(keys)
                )
                return found
        finally:
            index.close()
