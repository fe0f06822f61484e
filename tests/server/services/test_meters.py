"""The server's metrics are valid OpenMetrics."""

import re

import pytest

from narthex_server.operations.metrics import render_metrics
from narthex_server.services.meters import Counter, Histogram, Meters
from tests.server.alerts.alert_values import alert
from tests.server.conftest import House

_SAMPLE = re.compile(
    r"^(?P<name>[a-z_]+)(?:\{(?P<labels>[^{}]*)\})? (?P<value>[0-9.e+-]+|\+Inf|NaN)$"
)
_LABEL = re.compile(r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"')
_SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gauge": ("",),
}


def families(text: str) -> dict[str, str]:
    """Read an exposition strictly: each sample below the family that it belongs to."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line == "# EOF":
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} is there twice"
            types[name] = kind
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == name
        else:
            sample = _SAMPLE.match(line)
            assert sample is not None, line
            assert sample["name"] in {name + s for s in _SUFFIXES[types[name]]}, line
            labels = sample["labels"]
            assert not labels or ",".join(_LABEL.findall(labels)) == labels, line
    return types


def test_a_counter_renders_each_series_once_with_its_total() -> None:
    rows = Counter("rows", "Rows.")
    rows.add(2, webhook="shop", endpoint="orders")
    rows.add(3, endpoint="orders", webhook="shop")
    rows.add(webhook='a "b"\\\n')

    assert rows.render() == [
        "# TYPE rows counter",
        "# HELP rows Rows.",
        'rows_total{endpoint="orders",webhook="shop"} 5',
        'rows_total{webhook="a \\"b\\"\\\\\\n"} 1',
    ]


def test_large_counts_keep_their_digits() -> None:
    rows = Counter("rows", "Rows.")
    rows.add(123_456_789)

    assert rows.render()[-1] == "rows_total 123456789"


def test_buckets_of_a_histogram_are_cumulative_and_end_with_the_count() -> None:
    took = Histogram("took_seconds", "How long.")
    for seconds in (0.0005, 0.03, 0.03, 99.0):
        took.observe(seconds, route="/query")

    lines = took.render()[2:]
    counts = [float(line.split(" ")[1]) for line in lines if "_bucket" in line]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 4)
    assert 'took_seconds_bucket{route="/query",le="+Inf"} 4' in lines
    assert 'took_seconds_count{route="/query"} 4' in lines


def test_meters_of_a_process_are_openmetrics() -> None:
    meters = Meters()
    meters.accepted.add(5, webhook="shop", endpoint="orders")
    meters.requests.add(route="/query", status="200")
    meters.took.observe(0.1, route="/query")

    assert families("\n".join([*meters.render(), ""])) == {
        "narthex_rows_accepted": "counter",
        "narthex_rows_erased": "counter",
        "narthex_requests": "counter",
        "narthex_logged_queries": "counter",
        "narthex_alert_deliveries": "counter",
        "narthex_lineage_events": "counter",
        "narthex_request_seconds": "histogram",
    }


def test_the_memory_of_drivers_is_shown_by_supervisor() -> None:
    text = render_metrics(Meters(), (), {"a:1": {"code_cache": 7, "restarts": 2}, "b:2": None})

    lines = text.splitlines()
    assert 'narthex_driver_code_cache_bytes{supervisor="a:1"} 7' in lines
    assert 'narthex_driver_restarts{supervisor="a:1"} 2' in lines
    assert "b:2" not in text
    assert families(text)["narthex_driver_heap_limit_bytes"] == "gauge"


def test_firing_alerts_are_counted_by_branch_rule_and_severity() -> None:
    alerts = [alert("Orders"), alert("Users"), alert(rule="lag", severity="critical")]

    text = render_metrics(Meters(), (), alerts=alerts)

    lines = text.splitlines()
    name = "narthex_alerts_firing"
    assert f'{name}{{branch="main",rule="freshness",severity="warning"}} 2' in lines
    assert f'{name}{{branch="main",rule="lag",severity="critical"}} 1' in lines
    assert families(text)[name] == "gauge"


@pytest.mark.postgres
def test_the_metrics_route_answers_openmetrics(house: House) -> None:
    answer = house.client.get("/api/v1/metrics")

    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert {"narthex_requests", "narthex_job_up", "narthex_job_backlog"} <= set(
        families(answer.text)
    )
