"""Measure the freshness of one branch while authors of other branches do their worst.

    python -m bench.hostile [--home HOME] [--seconds 60] [--only reads|offline]

Rows of `main` are pushed one at a time, and the time until /query answers each is measured: at
rest, and while each of these happens on a branch of its own: lists of three million elements are
exploded into one window of one key; a pipeline's function never returns; extractors answer with a
gigabyte, allocate 64 GB, or match a pattern that backtracks for ever. Four clients ask for the
extractors all the time. Each case must also answer its own author with an error that names the
code, or show how far the job is behind; otherwise the bench fails.

Then offline queries of `main` are asked one after another, at rest and while the author of another
branch has six that do not end. The author keeps six open, because each of them ends with the time
of its call.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final

import attrs
import pandas as pd

from bench import hostile_features as features
from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.running import connect, platform, say
from narthex._base.records import Json
from narthex._runtime.workers import Limits
from narthex.client import Client
from narthex.errors import Refused
from narthex.settings import Settings

RATIO: Final = 2.0
"""The target: the greatest factor of the median freshness at rest."""

CLIENTS: Final = 4
LISTS, ELEMENTS = 100, 30_000
PAUSE_S: Final = 0.25
PATIENCE_S: Final = 120.0

OFFLINE_RATIO: Final = 2.5
"""The target: the greatest factor of the p95 of offline queries at rest."""

ENDLESS: Final = 6
LEAST: Final = 20
CALL_S: Final = Limits().call_timeout_s
OPEN: Final = frozenset({"queued", "running"})


@attrs.frozen(kw_only=True)
class HostileCase:
    """A branch whose author does harm.

    Attributes:
        during: What happens on it.
        definitions: Its datasets and its featuresets.
        begin: Starts the harm.
        asked: A feature that clients ask for all the time; empty for none.
        job: The dataset of a job that must show an error, or how far it is behind; empty for none.
        is_endless: The job ends with an error, and does not only fall behind.
    """

    during: str
    definitions: tuple[Sequence[object], Sequence[object]]
    begin: Callable[[Client], None] = lambda _: None
    asked: str = ""
    job: str = ""
    is_endless: bool = False


def push_lists(client: Client) -> None:
    """Push rows with three million elements together."""
    for _ in range(LISTS):
        row = {"id": 1, "items": list(range(ELEMENTS)), "at": _now()}
        client.log(features.WEBHOOK, "lists", pd.DataFrame([row]))


def push_one(client: Client) -> None:
    """Push a row for a function that never returns."""
    client.log(features.WEBHOOK, "endless", pd.DataFrame([{"id": 1, "at": _now()}]))


CASES: Final = (
    HostileCase(
        during="3 million rows are exploded into a window of one key",
        definitions=([features.Lists, features.Exploded], []),
        begin=push_lists,
        job="Exploded",
    ),
    HostileCase(
        during="a pipeline's function never returns",
        definitions=([features.Endless, features.Waited], []),
        begin=push_one,
        job="Waited",
        is_endless=True,
    ),
    HostileCase(
        during="an extractor answers with a gigabyte",
        definitions=([], [features.Large]),
        asked="Large.text",
    ),
    HostileCase(
        during="an extractor allocates 64 GB",
        definitions=([], [features.Memory]),
        asked="Memory.total",
    ),
    HostileCase(
        during="an extractor's pattern backtracks",
        definitions=([], [features.Bomb]),
        asked="Bomb.found",
    ),
)


def freshness(client: Client, *, first: int, seconds: float) -> list[float]:
    """Push rows one at a time; return the seconds until each was answered."""
    took: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        ping = first + len(took)
        row = {"ping": ping, "value": ping, "at": _now()}
        client.log(features.WEBHOOK, "pings", pd.DataFrame([row]))
        sent = time.monotonic()
        while _value(client, ping) != ping:
            if time.monotonic() - sent > PATIENCE_S:
                raise SystemExit(f"ping {ping} was not answered within {PATIENCE_S:.0f} s")
            time.sleep(0.005)
        took.append(time.monotonic() - sent)
        time.sleep(PAUSE_S)
    return took


def _value(client: Client, ping: int) -> object:
    answers, _ = client.query_columns(["Pinged.ping"], ["Pinged.value"], {"Pinged.ping": [ping]})
    return answers["Pinged.value"][0]


@contextmanager
def asking(settings: Settings, branch: str, asked: str) -> Iterator[list[str]]:
    """Ask for a feature with several clients, all the time; yield the answers, which are errors."""
    errors: list[str] = []
    stop = Event()

    def ask() -> None:
        client = Client(settings.server_url, settings.token, branch)
        key = f"{asked.partition('.')[0]}.id"
        while not stop.is_set():
            try:
                client.query_columns([key], [asked], {key: [1]})
                errors.append("")
            except Refused as refused:
                errors.append(str(refused))

    with ThreadPoolExecutor(CLIENTS) as pool:
        if asked:
            for _ in range(CLIENTS):
                pool.submit(ask)
        yield errors
        stop.set()


def seen_by_the_author(settings: Settings, case: HostileCase, errors: Sequence[str]) -> str:
    """Return what the author of a case reads; empty if nothing tells about the harm in time."""
    ends_at = time.monotonic() + PATIENCE_S
    code = case.asked.partition(".")[0]
    behind = ""
    while time.monotonic() < ends_at:
        if case.asked:
            if shown := next((error for error in errors if code in error), ""):
                return shown
        else:
            behind = _backlog(settings, case) or behind
            if shown := _job_error(settings, case):
                return shown
            if behind and not case.is_endless:
                return behind
        time.sleep(1.0)
    return behind


def _jobs(settings: Settings, case: HostileCase) -> Iterator[dict[str, Json]]:
    found = connect(settings).read("jobs")["jobs"]
    for job in found if isinstance(found, list) else ():
        if isinstance(job, dict) and case.job in str(job.get("label")):
            yield job


def _job_error(settings: Settings, case: HostileCase) -> str:
    return next((str(job["error"]) for job in _jobs(settings, case) if job.get("error")), "")


def _backlog(settings: Settings, case: HostileCase) -> str:
    behind = [job.get("behind") for job in _jobs(settings, case)]
    rows = max((count for count in behind if isinstance(count, int)), default=0)
    return f"{rows} rows behind" if rows else ""


def run(settings: Settings, *, seconds: float) -> list[dict[str, object]]:
    """Measure every case; return the figures of each."""
    client = connect(settings)
    client.commit("pings", [features.Pings], [features.Pinged], tell=say)
    freshness(client, first=0, seconds=5.0)
    rest = freshness(client, first=1_000_000, seconds=seconds)
    found = [_figures("at rest", rest, rest, "")]
    raw = [("at rest", one) for one in rest]
    for number, case in enumerate(CASES, start=1):
        branch = f"hostile-{number}"
        author = connect(settings)
        author.init_branch(branch)
        datasets, featuresets = case.definitions
        author.commit("harm", [*datasets], [*featuresets], tell=say)
        say(f"measuring for {seconds:.0f} s: {case.during}")
        case.begin(author)
        with asking(settings, branch, case.asked) as errors:
            took = freshness(client, first=(number + 1) * 1_000_000, seconds=seconds)
            seen = seen_by_the_author(settings, case, errors)
        raw += [(case.during, one) for one in took]
        found.append(_figures(case.during, took, rest, seen))
        author.delete_branch(branch)
    keep_raw("hostile", ["during", "took_s"], raw)
    return found


def offline_queries(client: Client, *, least: int, seconds: float) -> list[float]:
    """Ask offline queries one after another; return the seconds until each was answered."""
    took: list[float] = []
    began = time.monotonic()
    while len(took) < least or time.monotonic() - began < seconds:
        spine = {"Pinged.ping": [0, 1, 2], "at": [_now()] * 3}
        sent = time.monotonic()
        client.query_offline_columns(
            ["Pinged.ping"],
            ["Pinged.value"],
            spine,
            timestamp_column="at",
            timeout_s=PATIENCE_S * 5,
            tell=lambda _: None,
        )
        took.append(time.monotonic() - sent)
    return took


@contextmanager
def endless_queries(settings: Settings, branch: str) -> Iterator[list[str]]:
    """Keep offline queries open that do not end; yield the errors of those that were ended."""
    author = Client(settings.server_url, settings.token, branch)
    ends: list[str] = []
    stop = Event()

    def ask() -> str:
        spine = pd.DataFrame({"Loop.id": [1], "at": [pd.Timestamp(_now())]})
        return author.start_offline_query(["Loop.id"], ["Loop.never"], "at", spine)

    def keep(asked: list[str]) -> None:
        while not stop.wait(PAUSE_S):
            for place, request_id in enumerate(asked):
                status = author.track_offline_query(request_id)
                if status["status"] not in OPEN:
                    ends.append(str(status["error"]))
                    asked[place] = ask()
        for request_id in asked:
            author.cancel_offline_query(request_id)

    asked = [ask() for _ in range(ENDLESS)]
    while author.track_offline_query(asked[0])["status"] == "queued":
        time.sleep(PAUSE_S)
    with ThreadPoolExecutor(1) as pool:
        keeping = pool.submit(keep, asked)
        yield ends
        stop.set()
        keeping.result()


def run_offline(settings: Settings, *, seconds: float) -> list[dict[str, object]]:
    """Measure offline queries at rest and beside endless ones; return the figures of both."""
    client, author, branch = connect(settings), connect(settings), "hostile-offline"
    client.commit("pings", [features.Pings], [features.Pinged], tell=say)
    author.init_branch(branch)
    author.commit("harm", [], [features.Loop], tell=say)
    offline_queries(client, least=3, seconds=0)
    say(f"measuring offline queries for {seconds:.0f} s, at rest")
    rest = offline_queries(client, least=LEAST, seconds=seconds)
    during = f"another branch has {ENDLESS} endless offline queries"
    say(f"measuring for {seconds:.0f} s: {during}")
    with endless_queries(settings, branch) as ends:
        took = offline_queries(client, least=LEAST, seconds=max(seconds, 2 * CALL_S))
    author.delete_branch(branch)
    raw = [("offline at rest", one) for one in rest] + [(during, one) for one in took]
    keep_raw("hostile_offline", ["during", "took_s"], raw)
    seen = next((end for end in ends if "Loop" in end), "")
    return [_figures("offline queries at rest", rest, rest, ""), _figures(during, took, rest, seen)]


def _figures(
    during: str, took: Sequence[float], rest: Sequence[float], seen: str
) -> dict[str, object]:
    return {
        "during": during,
        "pings": len(took),
        "p50_ms": round(1000 * quantile(took, 0.5), 1),
        "p95_ms": round(1000 * quantile(took, 0.95), 1),
        "greatest_ms": round(1000 * max(took), 1),
        "p50_of_rest": round(quantile(took, 0.5) / quantile(rest, 0.5), 2),
        "p95_of_rest": round(quantile(took, 0.95) / quantile(rest, 0.95), 2),
        "author_sees": seen.partition("\n")[0],
    }


def _now() -> datetime:
    return datetime.now(UTC)


def main() -> int:
    """Run; exit with 1 if an author sees nothing of what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--seconds", type=float, default=60.0, help="the duration of a case")
    parser.add_argument("--only", choices=("reads", "offline"), help="a part of it [both]")
    asked = parser.parse_args()
    with platform(asked.home) as settings:
        busy = load_average()
        found = run(settings, seconds=asked.seconds) if asked.only != "offline" else []
        offline = run_offline(settings, seconds=asked.seconds) if asked.only != "reads" else []
    head = ("while", "pings", "p50 ms", "of rest", "p95 ms", "of rest", "the author sees")
    fields = ("during", "pings", "p50_ms", "p50_of_rest", "p95_ms", "p95_of_rest", "author_sees")
    for target, cases in (
        (f"p50 <= {RATIO:.0f} of rest, and each author sees an error", found),
        (f"p95 <= {OFFLINE_RATIO:g} of rest, and the author sees an error", offline),
    ):
        if cases:
            table = [[str(case[name]) for name in fields] for case in cases]
            show(f"target: {target}", head, table)
    ok = all(case["author_sees"] for case in (*found[1:], *offline[1:]))
    report_result(
        "hostile",
        {"bench": "hostile", "result": "ok" if ok else "failed", "load_average": busy}
        | {"cases": [*found, *offline]},
    )
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
