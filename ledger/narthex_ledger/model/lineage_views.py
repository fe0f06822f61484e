"""The ledger's events as lineage needs them: frozen values, never rows."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger.model.audit_views import AuditView
from narthex_ledger.model.views import EventView

MISSING_FOR: Final = dt.timedelta(minutes=10)
"""How long a missing number may belong to a transaction that has not ended yet.

A transaction of the ledger ends within some multiples of its time limits, which are 30 s.
"""

MOST_MISSING: Final = 1000
"""How many missing numbers are looked for, the greatest first; PostgreSQL skips 32 in a crash."""


@attrs.frozen(kw_only=True)
class LineagePosition:
    """How far lineage was sent.

    Attributes:
        sent_to: The greatest number of an event that was sent.
        missing: The smaller numbers of which no event was seen, and when each was found missing,
            in microseconds since 1970.
        backfills: The epoch of the backfill that has begun and not ended, by the job's asset.
    """

    sent_to: int = 0
    missing: Mapping[int, int] = attrs.field(factory=dict)
    backfills: Mapping[int, int] = attrs.field(factory=dict)

    def after(
        self, sent: Iterable[int], backfills: Mapping[int, int], *, now_us: int
    ) -> "LineagePosition":
        """Return the position once more events were sent, the numbers of which are given."""
        numbers = frozenset(sent)
        sent_to = max(numbers, default=self.sent_to)
        skipped = (one for one in range(self.sent_to + 1, sent_to) if one not in numbers)
        found = {**self.missing, **dict.fromkeys(skipped, now_us)}
        oldest = now_us - MISSING_FOR // dt.timedelta(microseconds=1)
        kept = sorted(one for one in found if one not in numbers and found[one] > oldest)
        return LineagePosition(
            sent_to=max(sent_to, self.sent_to),
            missing={one: found[one] for one in kept[-MOST_MISSING:]},
            backfills=backfills,
        )


@attrs.frozen(kw_only=True)
class LineageCommit:
    """The parts of a commit that lineage shows.

    Attributes:
        branch: The name of its branch, which may be deleted.
        promotion: The state of its promotion; None if it has none.
        manifest_id: The manifest that it binds; None before it is planned.
        is_cancelled: Whether a person asked for its end.
    """

    commit_id: UUID
    branch: str
    kind: str
    promotion: str | None
    manifest_id: UUID | None
    error: Json
    is_cancelled: bool


@attrs.frozen(kw_only=True)
class LineageBatch:
    """Events that were not sent yet, by number, with what they are about.

    Attributes:
        commits: The commits of the events and of their assets, by id.
        introduced_by: The commits that introduced the events' assets, by asset.
        audits: The audits of the events, by id.
    """

    now: dt.datetime
    position: LineagePosition
    events: tuple[EventView, ...] = ()
    commits: Mapping[UUID, LineageCommit] = attrs.field(factory=dict)
    introduced_by: Mapping[int, UUID] = attrs.field(factory=dict)
    audits: Mapping[UUID, AuditView] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class LineageStatus:
    """How far the sending of lineage is behind.

    Attributes:
        lag_s: The age of the oldest event that was not sent, in seconds; 0 if there is none.
        failures: How many attempts in a row have failed.
        error: Why the last one failed; empty if it did not.
    """

    lag_s: float
    failures: int
    error: str
