"""Bytewax: from the topic into tiles in LMDB, state by key.

python -m bench.contenders.bytewax_tiles BOOTSTRAP TOPIC DIRECTORY LENGTHS ROWS

Each row goes to its window of each length, and each change of a window's state is emitted;
Bytewax's own windows emit only when they close. It runs without recovery, its cheapest mode.
"""

import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bytewax.operators as op
import fastavro
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from bench.contenders.stopwatch import Stopwatch
from bench.contenders.tiles import Place, TileStore

Values = tuple[int, int, float, int]
"""Count, sum, price and most."""


class Tiles(DynamicSink[tuple[str, Values]]):
    """Stores the changed tiles, a batch at a time."""

    def __init__(self, tiles: TileStore) -> None:
        """Use a store."""
        self._tiles = tiles

    def build(self, _step_id: str, _worker: int, _workers: int) -> "TilesPartition":
        """Return the one partition."""
        return TilesPartition(self._tiles)


class TilesPartition(StatelessSinkPartition[tuple[str, Values]]):
    """The newest state of each tile of a batch."""

    def __init__(self, tiles: TileStore) -> None:
        """Use a store."""
        self._tiles = tiles

    def write_batch(self, items: Sequence[tuple[str, Values]]) -> None:
        """Store a batch."""
        newest = {_place(key): values for key, values in items}
        self._tiles.upsert(newest.items())


def _place(key: str) -> Place:
    user, length, number = key.split("|")
    return user, int(length), int(number)


def _grown(before: Values | None, row: dict[str, Any]) -> tuple[Values, Values]:
    amount, price = row["v_amount"], row["v_price"]
    count, total, prices, most = before or (0, 0, 0.0, amount)
    now = count + 1, total + amount, prices + price, max(most, amount)
    return now, now


def main() -> None:
    """Read the whole topic."""
    bootstrap, topic, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    lengths, rows = [int(one) for one in sys.argv[4].split(",")], int(sys.argv[5])
    schema = fastavro.parse_schema(json.loads((directory / "schema.json").read_text()))

    def to_windows(message: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        row = fastavro.schemaless_reader(io.BytesIO(message.value), schema)
        for length in lengths:
            yield f"{row['k_user']}|{length}|{row['event_time'] // length}", row

    flow = Dataflow("tiles")
    source = KafkaSource([bootstrap], [topic], tail=False, batch_size=10_000)
    placed = op.flat_map("place", op.input("read", flow, source), to_windows)
    grown = op.stateful_map("grow", placed, _grown)
    op.output("write", grown, Tiles(TileStore(directory / "bytewax")))
    watch = Stopwatch()
    run_main(flow)
    watch.print_figures(rows)


if __name__ == "__main__":
    main()
