"""Quix Streams: from the topic into tiles in LMDB, by its own windows, state in RocksDB.

python -m bench.contenders.quix_tiles BOOTSTRAP TOPIC DIRECTORY LENGTHS ROWS

Each change of a window is emitted (`current`). It runs at least once and without changelog
topics, its cheapest mode.
"""

import json
import sys
from pathlib import Path
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max, Sum
from quixstreams.models.serializers.avro import AvroDeserializer

from bench.contenders.stopwatch import Stopwatch
from bench.contenders.tiles import Place, TileStore

FLUSH_AT = 40_000
LENGTH_OF_KEY = 4
"""The length of a key's text precedes it, in so many bytes."""


class Changed:
    """Tiles that have changed and are not stored yet, the newest of each."""

    def __init__(self, tiles: TileStore) -> None:
        """Create an empty set."""
        self._tiles = tiles
        self._newest: dict[Place, tuple[object, ...]] = {}

    def note(self, user: str, length: int, value: dict[str, Any]) -> None:
        """Remember the current state of a window; its start is in milliseconds."""
        place = user, length, value["start"] * 1000 // length
        self._newest[place] = value["count"], value["sum"], value["price"], value["most"]
        if len(self._newest) >= FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Store all."""
        self._tiles.upsert(self._newest.items())
        self._newest.clear()


def main() -> None:
    """Read the whole topic."""
    bootstrap, topic_name, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    lengths, rows = [int(one) for one in sys.argv[4].split(",")], int(sys.argv[5])
    changed = Changed(TileStore(directory / "quix"))
    schema = json.loads((directory / "schema.json").read_text())
    app = Application(
        bootstrap,
        consumer_group="quix",
        auto_offset_reset="earliest",
        state_dir=directory / "quix-state",
        use_changelog_topics=False,
        loglevel="ERROR",
    )
    topic = app.topic(
        topic_name,
        key_deserializer="bytes",
        value_deserializer=AvroDeserializer(schema=schema),
        timestamp_extractor=lambda value, *_: value["event_time"] // 1000,
    )
    source = app.dataframe(topic)
    watch = Stopwatch()
    for length in lengths:
        window = source.tumbling_window(length // 1000, name=f"of_{length}").agg(
            count=Count(),
            sum=Sum("v_amount"),
            price=Sum("v_price"),
            most=Max("v_amount"),
        )
        window.current().update(
            lambda value, key, _at, _headers, length=length: changed.note(
                key[LENGTH_OF_KEY:].decode(), length, value
            ),
            metadata=True,
        )
    app.run(count=rows * len(lengths), timeout=60, collect=False)
    changed.flush()
    watch.print_figures(rows)


if __name__ == "__main__":
    main()
