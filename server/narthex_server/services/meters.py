"""Counters and histograms of this process, rendered as OpenMetrics text."""

import threading
from collections.abc import Iterable

import attrs

from narthex_ledger import LATENCY_BOUNDS_S as BUCKETS_S
from narthex_server.services.read_instants import ReadInstants


def labelled(labels: Iterable[tuple[str, str]]) -> str:
    """Render the labels of a series; their values may be any text."""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Render a sample's value with all its digits."""
    whole = int(value)
    return str(whole) if whole == value else repr(float(value))


@attrs.define
class Counter:
    """A number that only grows, by labels."""

    name: str
    says: str
    _values: dict[tuple[tuple[str, str], ...], float] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def add(self, amount: float = 1, **labels: str) -> None:
        """Increase the counter."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def read(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the counts by labels, which are in order of their names."""
        with self._lock:
            return dict(self._values)

    def render(self) -> list[str]:
        """Render as OpenMetrics lines."""
        lines = [f"# TYPE {self.name} counter", f"# HELP {self.name} {self.says}"]
        return lines + [
            f"{self.name}_total{labelled(key)} {number(value)}"
            for key, value in self.read().items()
        ]


@attrs.define
class Histogram:
    """Durations in seconds, by labels."""

    name: str
    says: str
    _counts: dict[tuple[tuple[str, str], ...], list[float]] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def observe(self, seconds: float, **labels: str) -> None:
        """Record one measurement."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            counts = self._counts.setdefault(key, [0.0] * (len(BUCKETS_S) + 2))
            for place, bound in enumerate(BUCKETS_S):
                if seconds <= bound:
                    counts[place] += 1
            counts[-2] += 1
            counts[-1] += seconds

    def read(self) -> dict[tuple[tuple[str, str], ...], list[float]]:
        """Return, by labels, how many took at most each of `BUCKETS_S`, how many, and their sum."""
        with self._lock:
            return {key: list(counts) for key, counts in self._counts.items()}

    def render(self) -> list[str]:
        """Render as OpenMetrics lines."""
        lines = [f"# TYPE {self.name} histogram", f"# HELP {self.name} {self.says}"]
        for key, counts in self.read().items():
            for bound, count in zip(BUCKETS_S, counts, strict=False):
                lines.append(
                    f"{self.name}_bucket{labelled((*key, ('le', str(bound))))} {number(count)}"
                )
            lines.append(
                f"{self.name}_bucket{labelled((*key, ('le', '+Inf')))} {number(counts[-2])}"
            )
            lines.append(f"{self.name}_count{labelled(key)} {number(counts[-2])}")
            lines.append(f"{self.name}_sum{labelled(key)} {number(counts[-1])}")
        return lines


@attrs.frozen
class Meters:
    """All meters of a server process.

    Attributes:
        reads: When it read datasets and features; the ledger has it, and no metric.
    """

    erased: Counter = attrs.field(
        factory=lambda: Counter(
            "narthex_rows_erased", "Rows left out by /log because their keys were erased."
        )
    )
    accepted: Counter = attrs.field(
        factory=lambda: Counter("narthex_rows_accepted", "Rows accepted by /log.")
    )
    requests: Counter = attrs.field(
        factory=lambda: Counter("narthex_requests", "Requests, by route and status.")
    )
    kept: Counter = attrs.field(
        factory=lambda: Counter("narthex_logged_queries", "Queries to log, by outcome.")
    )
    notices: Counter = attrs.field(
        factory=lambda: Counter(
            "narthex_alert_deliveries", "Deliveries of alerts, by receiver and outcome."
        )
    )
    lineage: Counter = attrs.field(
        factory=lambda: Counter(
            "narthex_lineage_events", "Events of OpenLineage, by outcome of their delivery."
        )
    )
    took: Histogram = attrs.field(
        factory=lambda: Histogram("narthex_request_seconds", "Request duration, by route.")
    )
    reads: ReadInstants = attrs.field(factory=ReadInstants)

    def render(self) -> list[str]:
        """Render all of them."""
        counters = (
            *(self.accepted, self.erased, self.requests),
            *(self.kept, self.notices, self.lineage),
        )
        return [line for one in counters for line in one.render()] + self.took.render()
