"""Send random calls, and judge the answers."""

import contextlib
import http.client
import json
import time
from collections import Counter
from collections.abc import Callable
from random import Random  # noqa: TID251 (seeded)
from typing import Final
from urllib.parse import urlsplit

import attrs

from narthex_server.security.route_rights import ROLES
from narthex_stores import LogReader
from tests.http_fuzz.calls import HttpCall, random_calls
from tests.http_fuzz.serving import ENDPOINT, PLATFORM, ServerUnderTest, tokens

LONGEST_S: Final = 10.0
"""The longest time that a call may take."""

EACH: Final = 25
"""How many random calls come between two valid rows."""

TELL_EACH: Final = 1000
GREATEST_GROWTH: Final = 1.1
SHOWN: Final = 20
_WARM: Final = 2
"""Memory is compared from this part of the calls on: by then each route was called."""
_FAILED: Final = 500
_PROCESSED: Final = (200, 202)


@attrs.define(kw_only=True)
class FuzzReport:
    """The outcome of a run.

    Attributes:
        failures: Calls that were answered with 500, or with a path of the server, and calls that
            hung.
        statuses: How many answers had each status.
        accepted: How many rows the server accepted.
        lost: Accepted rows that are not in the topic.
        warm_mib: The memory of the server after half of the calls.
    """

    calls: int = 0
    failures: list[str] = attrs.field(factory=list)
    statuses: Counter[int] = attrs.field(factory=Counter)
    accepted: int = 0
    lost: int = 0
    warm_mib: float = 0.0
    end_mib: float = 0.0
    has_ended: bool = False

    @property
    def growth(self) -> float:
        return self.end_mib / self.warm_mib if self.warm_mib else 1.0

    def is_sound(self) -> bool:
        """Return whether no call failed and no row was lost."""
        return self.accepted > 0 and not (self.failures or self.lost or self.has_ended)

    def plain(self) -> dict[str, object]:
        """Return the report as JSON."""
        return {
            "calls": self.calls,
            "statuses": dict(sorted(self.statuses.items())),
            "failures": self.failures[:SHOWN],
            "failed": len(self.failures),
            "accepted_rows": self.accepted,
            "lost_rows": self.lost,
            "server_ended": self.has_ended,
            "memory_mib": [round(self.warm_mib, 1), round(self.end_mib, 1)],
            "memory_growth": round(self.growth, 3),
        }


@attrs.define(kw_only=True)
class Fuzzer:
    """Calls one server.

    Attributes:
        under: The server.
        kafka: Its broker.
        longest_s: A call that takes longer hangs.
    """

    under: ServerUnderTest
    kafka: str
    longest_s: float = LONGEST_S
    report: FuzzReport = attrs.field(factory=FuzzReport)
    _tokens: dict[str, str] = attrs.field(factory=dict, init=False)
    _pushed: int = attrs.field(default=0, init=False)
    _accepted: set[str] = attrs.field(factory=set, init=False)

    def run(self, number: int, seed: int, *, tell: Callable[[str], None]) -> FuzzReport:
        """Send a number of calls, the same for the same seed."""
        rng = Random(seed)  # noqa: S311 (no secret)
        self._tokens = tokens(self.under.url, tuple(ROLES))
        report, began = self.report, time.monotonic()
        calls = random_calls(number, seed, commit_id=self.under.commit_id)
        for place, call in enumerate(calls, start=1):
            if place % EACH == 1:
                self._push_row()
            self._send(call, role=self._role(rng))
            report.calls = place
            if place == max(number // _WARM, 1):
                report.warm_mib = self.under.memory_mib()
            if place % TELL_EACH == 0:
                rate = place / (time.monotonic() - began)
                memory = self.under.memory_mib()
                tell(
                    f"{place} calls, {rate:.0f}/s, {len(report.failures)} failed, {memory:.0f} MiB"
                )
            if not self.under.process.is_running():
                report.has_ended = True
                return report
        report.end_mib = self.under.memory_mib()
        report.accepted = len(self._accepted)
        report.lost = len(self._accepted - self._rows_of_topic())
        return report

    def _role(self, rng: Random) -> str:
        return PLATFORM if rng.random() < 0.5 else rng.choice([*self._tokens])

    def _send(self, call: HttpCall, *, role: str) -> None:
        began = time.monotonic()
        try:
            status, text = self._answer(call, self._tokens[role])
        except TimeoutError:
            self.report.failures.append(f"no answer within {self.longest_s:g} s, {role}: {call}")
            return
        except (http.client.HTTPException, OSError):
            self.report.statuses[0] += 1  # the server refused and closed: a malformed head
            return
        self.report.statuses[status] += 1
        took = time.monotonic() - began
        if status == _FAILED or took > self.longest_s:
            self.report.failures.append(f"{status} after {took:.1f} s, {role}: {call}\n{text}")
        if str(self.under.home) in text:
            self.report.failures.append(f"a path of the server, {role}: {call}\n{text}")
        if status == 401 and role != "none":
            # A call of an administrator revoked it.
            self._tokens = tokens(self.under.url, tuple(ROLES))

    def _answer(self, call: HttpCall, token: str) -> tuple[int, str]:
        place = urlsplit(self.under.url)
        connection = http.client.HTTPConnection(
            str(place.hostname), place.port or 80, timeout=self.longest_s
        )
        with contextlib.closing(connection):
            connection.putrequest(call.method, call.path, skip_accept_encoding=True)
            connection.putheader("authorization", f"Bearer {token}")
            connection.putheader("content-length", str(len(call.body)))
            for name, value in call.headers.items():
                connection.putheader(name, value)
            connection.endheaders(call.body)
            answer = connection.getresponse()
            return answer.status, answer.read(2000).decode("utf-8", "replace")

    def _push_row(self) -> None:
        """Push a valid row, and remember it if it was accepted."""
        self._pushed += 1
        user = f"fuzz-{self._pushed}"
        row = {
            "user": [user],
            "amount": [1.5],
            "ordered_at": ["2026-05-01T12:00:00Z"],
            "test": [False],
        }
        body = json.dumps({"webhook": "shop", "endpoint": ENDPOINT, "data": row}).encode()
        call = HttpCall(
            method="POST",
            path="/api/v1/log",
            headers={"content-type": b"application/json"},
            body=body,
        )
        status, _ = self._answer(call, self._tokens["ingest"])
        if status in _PROCESSED:
            self._accepted.add(user)

    def _rows_of_topic(self) -> set[str]:
        """Return the users of all rows in the topic of the endpoint."""
        found: set[str] = set()
        with LogReader(self.kafka) as reader:
            ends = reader.end_offsets([self.under.topic])
            reader.assign(dict.fromkeys(ends, 0))
            left = sum(ends.values())
            while left > 0:
                records = reader.poll(max_records=1000, timeout_s=10.0)
                if not records:
                    break
                left -= len(records)
                for record in records:
                    rows = json.loads(record.value or b"{}").get("rows", [])
                    found |= {str(row.get("user")) for row in rows if isinstance(row, dict)}
        return found
