"""Measure leaks of a platform under constant load: memory, open files, threads, disk.

    python -m bench.soak [--home HOME] [--rows-per-s 100] [--minutes 60]

The load is an open loop, half by webhook, half by a Kafka topic, as in `bench.freshness`, with
queries all the time. The bench reads the resources of each kind of process every ten seconds. The
first third is warm-up, in which caches and heaps fill. A least-squares line fits the rest; its
slope, per hour, is the leak. At the end every user's count and sum must be exact, or the figures
are void.
"""

import argparse
import secrets
import threading
import time
from pathlib import Path

import attrs

from bench.figures import keep_raw, load_average, report_result, show
from bench.freshness import Load, Sender, is_exact, watch
from bench.resources import Resources, disk_mib, held, slope
from bench.running import connect, deploy, platform, say
from narthex.settings import Settings

EACH_S = 10.0
WARM_UP = 1 / 3
HOUR_S = 3600.0
WAYS = ("webhook", "kafka")


@attrs.frozen(kw_only=True)
class Sample:
    """The resources at an instant, in seconds from the beginning of the load."""

    at_s: float
    roles: dict[str, Resources]
    disk_mib: float


def soak(settings: Settings, *, rows_per_s: float, seconds: float) -> dict[str, object]:
    """Load a platform that serves; return the figures."""
    loads = [Load(run=f"{secrets.token_hex(4)}{way}") for way in WAYS]
    senders = [Sender(settings, load, by=way) for load, way in zip(loads, WAYS, strict=True)]
    stop = threading.Event()
    principal = threading.Thread(target=watch, args=(connect(settings), senders, stop), daemon=True)
    threads = [
        threading.Thread(target=sender.run, args=(rows_per_s / len(WAYS), seconds))
        for sender in senders
    ]
    began = time.monotonic()
    for thread in (principal, *threads):
        thread.start()
    samples = _sampled(settings.home, threads, began)
    stop.set()
    principal.join(10)
    expected = {user: n for load in loads for user, n in load.expected.items()}
    return _figures(samples) | {
        "rows": sum(load.made for load in loads),
        "refused": [reason for sender in senders for reason in sender.failed[:3]],
        "behind_s": round(max(sender.latest_s for sender in senders), 2),
        "exact": is_exact(connect(settings), expected),
    }


def _sampled(home: Path, threads: list[threading.Thread], began: float) -> list[Sample]:
    samples: list[Sample] = []
    while any(thread.is_alive() for thread in threads):
        at_s = time.monotonic() - began
        samples.append(Sample(at_s=at_s, roles=held(home), disk_mib=disk_mib(home)))
        if len(samples) % 6 == 0:
            total = sum(role.memory_mib for role in samples[-1].roles.values())
            say(f"{at_s / 60:.0f} min: {total:.0f} MiB, disk {samples[-1].disk_mib:.0f} MiB")
        time.sleep(max(0.0, began + at_s + EACH_S - time.monotonic()))
    return samples


def _figures(samples: list[Sample]) -> dict[str, object]:
    raw = [
        (round(sample.at_s, 1), role, *attrs.astuple(value))
        for sample in samples
        for role, value in sorted(sample.roles.items())
    ]
    head = ("at_s", "role", "processes", "memory_mib", "own_mib", "files", "threads", "cpu_s")
    warm = [sample for sample in samples if sample.at_s >= samples[-1].at_s * WARM_UP]
    roles = sorted({role for one in warm for role in one.roles})
    lasting = [role for role in roles if all(role in one.roles for one in warm)]
    return {
        "raw": keep_raw("soak", head, raw),
        "samples": len(samples),
        "disk_mib": [round(samples[0].disk_mib), round(samples[-1].disk_mib)],
        "roles": {role: _of_role(warm, role) for role in lasting},
        "all": _line([(one.at_s, _total(one)) for one in warm]),
        "all_own": _line([(one.at_s, sum(h.own_mib for h in one.roles.values())) for one in warm]),
        "passing": [role for role in roles if role not in lasting],
    }


def _of_role(warm: list[Sample], role: str) -> dict[str, object]:
    seen = [(one.at_s, one.roles[role]) for one in warm]
    return {
        "memory_mib": _line([(at, one.memory_mib) for at, one in seen]),
        "own_mib": _line([(at, one.own_mib) for at, one in seen]),
        "files": _line([(at, float(one.files)) for at, one in seen]),
        "threads": _line([(at, float(one.threads)) for at, one in seen]),
        "cpu_share": round(
            (seen[-1][1].cpu_s - seen[0][1].cpu_s) / max(1e-9, seen[-1][0] - seen[0][0]), 3
        ),
    }


def _line(points: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "first": round(points[0][1], 1),
        "last": round(points[-1][1], 1),
        "most": round(max(value for _, value in points), 1),
        "per_hour": round(slope(points) * HOUR_S, 1),
    }


def _total(sample: Sample) -> float:
    return sum(role.memory_mib for role in sample.roles.values())


def _show(figures: dict[str, object], minutes: float) -> None:
    roles = figures["roles"]
    if not isinstance(roles, dict):
        raise TypeError("no roles were seen")
    rows = [
        (
            role,
            *(str(one["memory_mib"][name]) for name in ("first", "last", "most", "per_hour")),
            f"{one['own_mib']['last']:g} ({one['own_mib']['per_hour']:+g})",
            *(
                f"{one[what]['last']:g} ({one[what]['per_hour']:+g})"
                for what in ("files", "threads")
            ),
            str(one["cpu_share"]),
        )
        for role, one in sorted(roles.items(), key=lambda item: -item[1]["memory_mib"]["last"])
    ]
    head = (
        "process",
        "MiB then",
        "at the end",
        "most",
        "MiB/h",
        "of no file (/h)",
        "files (/h)",
        "threads (/h)",
        "CPU",
    )
    show(f"{minutes:g} minutes of constant load, after warm-up", head, rows)


def main() -> int:
    """Run; exit with 1 if a count is wrong or a row was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--rows-per-s", type=float, default=100.0)
    parser.add_argument("--minutes", type=float, default=60.0)
    asked = parser.parse_args()
    with platform(asked.home) as settings:
        say(f"serving after {deploy(settings):.1f} s; sending for {asked.minutes:g} min")
        busy = load_average()
        figures = soak(settings, rows_per_s=asked.rows_per_s, seconds=asked.minutes * 60)
    _show(figures, asked.minutes)
    ok = bool(figures["exact"]) and not figures["refused"]
    result = {"bench": "soak", "result": "ok" if ok else "failed", **figures}
    report_result("soak", result | {"load_average": busy, "rows_per_s": asked.rows_per_s})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
