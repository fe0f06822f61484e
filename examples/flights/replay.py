"""December, live and accelerated: half of the rows by webhook, half by a Kafka topic."""

import json
import threading
import time
from collections.abc import Callable, Sequence

import attrs
from confluent_kafka import Producer

from examples.flights.data import Row
from narthex._formats.pandas.frames import frame_of_rows
from narthex.client import Client
from narthex_stores import Broker

TICK_S = 0.05
TOPICS = {"departures": "flights.departures", "weather": "flights.weather"}


@attrs.define
class Replay:
    """Sends rows at an even pace; the clock is the instant of the newest accepted row."""

    client: Client
    kafka: Broker
    rows: Sequence[Row]
    rows_per_s: float
    clock: str = ""
    sent: int = 0
    by_webhook: int = 0
    by_kafka: int = 0
    sent_of: dict[str, int] = attrs.field(factory=dict)
    newest: tuple[str, int, float] | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def run(self, *, progress: Callable[[int], None]) -> None:
        """Send all rows; return when the last one is accepted."""
        producer = Producer(
            {**self.kafka.config(), "linger.ms": 2, "partitioner": "murmur2_random"}
        )
        began = time.monotonic()
        while self.sent < len(self.rows):
            due = min(len(self.rows), int((time.monotonic() - began) * self.rows_per_s) + 1)
            self._send(self.rows[self.sent : due], producer)
            progress(self.sent)
            time.sleep(TICK_S)
        producer.flush()

    def _send(self, rows: Sequence[Row], producer: Producer) -> None:
        pushed: dict[str, list[dict[str, str | int | float | None]]] = {}
        for number, row in enumerate(rows, start=self.sent):
            if number % 2:
                producer.produce(TOPICS[row.endpoint], json.dumps(row.values).encode())
                self.by_kafka += 1
            else:
                pushed.setdefault(row.endpoint, []).append(row.values)
                self.by_webhook += 1
        for endpoint, values in pushed.items():
            self.client.log("airport", endpoint, frame_of_rows(values))
        producer.flush()
        self._note(rows)

    def _note(self, rows: Sequence[Row]) -> None:
        accepted = time.monotonic()
        with self._lock:
            for row in rows:
                tailnum = row.values.get("tailnum")
                if row.endpoint == "departures" and tailnum and row.values["departed_at"]:
                    self.sent_of[str(tailnum)] = self.sent_of.get(str(tailnum), 0) + 1
                    self.newest = (str(tailnum), self.sent_of[str(tailnum)], accepted)
            self.sent += len(rows)
            if rows:
                self.clock = max(self.clock, rows[-1].at)

    def position(self) -> tuple[str, int]:
        """Return the clock and the number of accepted rows."""
        with self._lock:
            return self.clock, self.sent
