# ruff: noqa: INP001
"""`python -m docs.render_metrics`: list the metrics of the server and of read processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from narthex_server.operations.metrics import render_metrics
from narthex_server.reads.pages import snapshot_lines
from narthex_server.services.meters import Meters

PAGE: Final = Path(__file__).parent / "reference" / "metrics.md"
_HEAD: Final = """# Metrics

`GET /api/v1/metrics` of the server and of each read process has these metrics as OpenMetrics text.
The token needs the right `read:definitions` on all branches.

`docker/monitoring` has a configuration of Prometheus that scrapes them, rules of alerts, and a
dashboard for Grafana; see [deploying](../guide/deploying.md#metrics). Prometheus renames the label
`job` to `exported_job`.

`python -m docs.render_metrics` writes this page from the code.

| Metric | Type | Meaning |
|---|---|---|
"""


def metrics() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the type and the meaning of each metric."""
    types: dict[str, str] = {}
    for line in [*render_metrics(Meters(), []).splitlines(), *snapshot_lines(None)]:
        match line.split(" ", 3):
            case ["#", "TYPE", name, kind]:
                types[name] = kind
            case ["#", "HELP", name, meaning]:
                yield name, types[name], meaning


def names_of(name: str, kind: str) -> tuple[str, ...]:
    """Return the names of the series of a metric."""
    match kind:
        case "counter":
            return (f"{name}_total",)
        case "histogram":
            return tuple(f"{name}_{part}" for part in ("bucket", "sum", "count"))
        case _:
            return (name,)


def render() -> str:
    """Return the page."""
    rows = [
        f"| {', '.join(f'`{one}`' for one in names_of(name, kind))} | {kind} | {meaning} |\n"
        for name, kind, meaning in sorted(metrics())
    ]
    return _HEAD + "".join(rows)


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
