"""Measure a commit until it serves, and a rollback until it reaches readers; print tables and JSON.

    python -m bench.rollout [--home HOME] [--commits 3] [--rollbacks 6]

Commits without a backfill go through Airflow, each to a new branch and without shared assets; the
bench measures from the call to the first correct answer of /query. Then it changes a dataset and
rolls it back repeatedly while readers query without a pause, and measures from the request of the
rollback to the end of the first answer from the old commit. A reader queries two features of a user
with rows and of one without. The run fails and its figures are void if an answer mixes two commits,
or if a query that started after an answer from the old commit gets an answer from the new one.
"""

import argparse
import datetime as dt
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Self

import attrs

from bench.figures import keep_raw, load_average, quantile, report_result, show, tree_cpu_s
from bench.running import connect, platform, say
from bench.shop import WEBHOOK, Edition, edition
from narthex._base.records import Json
from narthex._formats.pandas.frames import frame_of_rows
from narthex.client import Client
from narthex.errors import NarthexError
from narthex.settings import NotInstalledError, Settings
from narthex_stack.operator.stack import Stack

READERS = 2
ROLLBACK_TARGET_S = 2.0
COMMIT_TARGET_S = 30.0
SERVES_S = 600.0
SETTLE_S = 60.0
ASK_EVERY_S = 0.1
"""Seldom enough that asking takes no noteworthy share of the machine."""
FEATURES = ("Buyer.orders", "Buyer.again")
KNOWN, UNKNOWN = "known", "unknown"
WIDE, NARROW = "7d", "1d"
AGED = dt.timedelta(days=3)
"""How old the known user's order is: in the wide window, and out of the narrow one."""

Answer = tuple[object, ...]
EMPTY: Answer = (-1, -1)
FIRST: Answer = (1, -1)
SECOND: Answer = (0, -2)


class WrongAnswerError(RuntimeError):
    """A reader got an answer that matches no commit."""


@attrs.frozen(kw_only=True)
class Question:
    """An answered query; instants are of the monotonic clock."""

    asked: float
    answered: float
    answer: Answer


def ask(client: Client) -> Answer:
    """Query both users; return one figure for each.

    Raises:
        WrongAnswerError: The features of a user are from two commits.
    """
    users = {"Buyer.user": [KNOWN, UNKNOWN]}
    answers, _ = client.query_columns(["Buyer.user"], FEATURES, users)
    orders, again = (tuple(answers[name]) for name in FEATURES)
    if orders != again:
        raise WrongAnswerError(f"one answer of two commits: {orders} and {again}")
    return orders


def until_answered(client: Client, wanted: Answer, *, within_s: float) -> float:
    """Query until the answer is correct; return the instant of its end.

    Raises:
        WrongAnswerError: No answer was correct in time.
    """
    ends_at = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < ends_at:
        try:
            last = ask(client)
        except NarthexError as refused:
            last = refused
        if last == wanted:
            return time.monotonic()
        time.sleep(ASK_EVERY_S)
    raise WrongAnswerError(f"{wanted} was not answered within {within_s:.0f} s, but {last}")


@attrs.frozen(kw_only=True)
class Served:
    """A commit that serves, and the durations of its phases."""

    name: str
    serves_s: float
    cpu_s: float
    phases: Mapping[str, float]


def serve(
    settings: Settings,
    client: Client,
    what: Edition,
    *,
    name: str,
    wanted: Answer,
    has_backfill: bool,
) -> Served:
    """Commit and wait for the first correct answer.

    Raises:
        WrongAnswerError: It did not come, or a backfill ran against expectations, or did not run.
    """
    operator = Stack(settings.home).status().operator
    if operator is None:
        raise NotInstalledError(f"nothing runs in `{settings.home}`")
    cpu_before, began = tree_cpu_s(operator.pid), time.monotonic()
    accepted = client.commit(
        name, what.datasets, what.featuresets, wait=False, tell=lambda _line: None
    )
    commit_id = str(accepted.body["commit_id"])
    serves_s = until_answered(client, wanted, within_s=SERVES_S) - began
    cpu_s = tree_cpu_s(operator.pid) - cpu_before
    shown = client.wait(commit_id, tell=lambda _line: None).body
    if has_backfill is not was_backfilled(shown):
        raise WrongAnswerError(f"{name}: the commit had {'no ' if has_backfill else 'a '}backfill")
    say(f"{name} serves after {serves_s:.1f} s; the platform took {cpu_s:.1f} s of CPU")
    return Served(name=name, serves_s=serves_s, cpu_s=cpu_s, phases=phases_of(shown))


def was_backfilled(commit: Mapping[str, Json]) -> bool:
    """Return whether a job of a commit was backfilled."""
    events = commit["events"]
    return any(
        isinstance(event, dict) and event["transition"] == "backfill_claimed"
        for event in (events if isinstance(events, list) else ())
    )


def phases_of(commit: Mapping[str, Json]) -> dict[str, float]:
    """Return the seconds between the instants that the ledger recorded for a commit."""
    events = commit["events"]
    instants = {"accepted": dt.datetime.fromisoformat(str(commit["accepted_at"]))}
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event["asset_id"] is None:
            at = dt.datetime.fromisoformat(str(event["at"]))
            instants.setdefault(str(event["transition"]), at)
    ordered = sorted(instants.items(), key=lambda pair: pair[1])
    return {
        after: (until - since).total_seconds() for (_, since), (after, until) in pairwise(ordered)
    }


class Reader:
    """Queries without a pause until the stop event."""

    def __init__(self, settings: Settings, branch: str) -> None:
        """Query a branch in a separate thread."""
        self._client = connect(settings)
        self._client.checkout(branch)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: list[Question] = []
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            asked = time.monotonic()
            try:
                answer = ask(self._client)
            except (NarthexError, WrongAnswerError) as error:
                self.failed.append(str(error))
                continue
            self.seen.append(Question(asked=asked, answered=time.monotonic(), answer=answer))


def roll_back(client: Client, readers: Sequence[Reader], *, to: Answer) -> float:
    """Roll back while readers query; return the seconds to the end of the first old answer.

    Raises:
        WrongAnswerError: A later answer was from the new commit, or none was from the old one.
    """
    before = [len(reader.seen) for reader in readers]
    began = time.monotonic()
    done = client.rollback()
    if done.body["served"] is not True:
        raise WrongAnswerError(f"the rollback was not hot: {done.body}")
    ends_at = began + SETTLE_S
    seen: list[Question] = []
    first: float | None = None
    while time.monotonic() < ends_at:
        seen = [q for reader, n in zip(readers, before, strict=True) for q in reader.seen[n:]]
        first = min((q.answered for q in seen if q.answer == to), default=None)
        if first is not None and all(r.seen[-1].asked > first for r in readers):
            break
        time.sleep(0.01)
    if first is None or not all(r.seen[-1].asked > first for r in readers):
        raise WrongAnswerError(f"readers did not get {to} within {SETTLE_S:.0f} s")
    late = [q for q in seen if q.asked > first and q.answer != to]
    if late:
        raise WrongAnswerError(f"{late[0].answer} was answered after {to}")
    return first - began


def measure_commits(settings: Settings, run: str, count: int) -> list[Served]:
    """Commit to new branches, one after the other."""
    found: list[Served] = []
    for number in range(1, count + 1):
        client = connect(settings)
        branch = f"{run}-{number}"
        client.init_branch(branch)
        what = edition(branch, number=1, window=WIDE)
        found.append(serve(settings, client, what, name=branch, wanted=EMPTY, has_backfill=False))
        client.close()
    return found


def measure_rollbacks(settings: Settings, branch: str, count: int) -> tuple[Served, list[float]]:
    """Change a dataset that has a row, then roll it back repeatedly."""
    client = connect(settings)
    client.checkout(branch)
    row = {"user": KNOWN, "at": dt.datetime.now(tz=dt.UTC) - AGED}
    client.log(WEBHOOK, branch, frame_of_rows([row]))
    until_answered(client, FIRST, within_s=SETTLE_S)
    second = edition(branch, number=2, window=NARROW)
    changed = serve(
        settings, client, second, name="with a backfill", wanted=SECOND, has_backfill=True
    )
    readers = [Reader(settings, branch) for _ in range(READERS)]
    with readers[0], readers[1]:
        took = [
            roll_back(client, readers, to=SECOND if number % 2 else FIRST)
            for number in range(count)
        ]
    client.close()
    failed = [line for reader in readers for line in reader.failed]
    if failed:
        raise WrongAnswerError(f"{len(failed)} questions failed, the first: {failed[0]}")
    return changed, took


def main() -> int:
    """Measure and print; fail if an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--commits", type=int, default=3)
    parser.add_argument("--rollbacks", type=int, default=6)
    asked = parser.parse_args()
    run = f"rollout-{secrets.token_hex(3)}"
    with platform(asked.home) as settings:
        commits = measure_commits(settings, run, asked.commits)
        changed, rollbacks = measure_rollbacks(settings, f"{run}-1", asked.rollbacks)
    return report([*commits, changed], rollbacks)


def report(served: Sequence[Served], rollbacks: Sequence[float]) -> int:
    """Show tables and print the line of JSON."""
    *commits, changed = served
    phases = list(dict.fromkeys(phase for one in served for phase in one.phases))
    show(
        "a commit serves (target: 30 s without a backfill); seconds to each step of the ledger",
        ("step", *(one.name for one in served)),
        [
            ("first right answer", *(f"{one.serves_s:.1f}" for one in served)),
            ("CPU of the platform", *(f"{one.cpu_s:.1f}" for one in served)),
            *((phase, *(f"{one.phases.get(phase, 0):.2f}" for one in served)) for phase in phases),
        ],
    )
    figures = {
        "bench": "rollout",
        "result": "ok",
        "commits_s": [round(one.serves_s, 2) for one in commits],
        "commits_cpu_s": [round(one.cpu_s, 2) for one in commits],
        "commit_target_s": COMMIT_TARGET_S,
        "with_backfill_s": round(changed.serves_s, 2),
        "rollback_median_s": round(quantile(rollbacks, 0.5), 3),
        "rollback_slowest_s": round(max(rollbacks), 3),
        "rollback_target_s": ROLLBACK_TARGET_S,
        "load_average": load_average(),
        "raw": keep_raw(
            "rollout",
            ("what", "seconds"),
            [(one.name, one.serves_s) for one in served] + [("rollback", s) for s in rollbacks],
        ),
    }
    report_result("rollout", figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
