"""The points at which a process can die: each transaction's boundaries, each call to a store."""

import contextlib
import enum
import threading
from collections.abc import Callable
from typing import TypeVar

import attrs

from narthex._ir.assets import AssetKind, AssetSpec
from narthex_ledger import BrokenConnection, Moment
from narthex_stores import (
    Absent,
    Adapter,
    Crash,
    InMemoryAdapter,
    Listed,
    Probe,
    StoreError,
    TransientError,
    Unknown,
)

_T = TypeVar("_T")

READS = frozenset(
    {
        "alert_state",
        "approval",
        "blocked_endpoints",
        "blocked_fields",
        "blocked_keys",
        "blocked_sources",
        "branch",
        "branch_of",
        "branches",
        "bundle",
        "claimable",
        "commit",
        "commit_of_key",
        "commits",
        "due_backfills",
        "gates",
        "obsolete_assets",
        "obsolete_names",
        "obsolete_sinks",
        "due_destroys",
        "due_notices",
        "engines",
        "erasure",
        "erasures",
        "events",
        "held_topic",
        "identity",
        "inventory",
        "jobs",
        "manifest",
        "owed_branches",
        "reached_assets",
        "readiness",
        "registry_version",
        "search_ledger",
        "serving",
        "successors",
        "unended",
        "unended_erasures",
        "unpinned",
    }
)
"""Transactions that change nothing: to die at one is to die after the one before it."""


class OutcomeColumn(enum.StrEnum):
    """The knowledge of the point's effect when the fault occurs."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"
    STOPPED = "stopped"


class FaultKind(enum.Enum):
    """One way in which a point goes wrong, and the column that it counts in."""

    DIES_BEFORE = ("dies before", OutcomeColumn.BEFORE)
    DIES_BEFORE_COMMIT = ("dies before COMMIT", OutcomeColumn.BEFORE)
    DIES_AFTER = ("dies after", OutcomeColumn.AFTER)
    NO_ANSWER_NO_EFFECT = ("no answer, no effect", OutcomeColumn.UNKNOWN)
    NO_ANSWER = ("no answer, effect", OutcomeColumn.UNKNOWN)
    LATE_EFFECT = ("no answer, effect later", OutcomeColumn.UNKNOWN)
    STOPPED = ("stopped, and woken when others have ended it", OutcomeColumn.STOPPED)

    @property
    def words(self) -> str:
        return self.value[0]

    @property
    def column(self) -> OutcomeColumn:
        return self.value[1]


TRANSACTION = (
    FaultKind.DIES_BEFORE_COMMIT,
    FaultKind.DIES_AFTER,
    FaultKind.NO_ANSWER_NO_EFFECT,
    FaultKind.NO_ANSWER,
    FaultKind.STOPPED,
)
REFUSED = (FaultKind.DIES_BEFORE, FaultKind.STOPPED)
"""The faults of a transaction that the ledger refuses: it never comes to its COMMIT."""
_MOMENTS = {
    FaultKind.DIES_BEFORE: Moment.BEFORE_BEGIN,
    FaultKind.DIES_BEFORE_COMMIT: Moment.BEFORE_COMMIT,
    FaultKind.NO_ANSWER_NO_EFFECT: Moment.BEFORE_COMMIT,
    FaultKind.DIES_AFTER: Moment.AFTER_COMMIT,
    FaultKind.NO_ANSWER: Moment.AFTER_COMMIT,
}
_ANSWERS_LOST = frozenset({FaultKind.NO_ANSWER_NO_EFFECT, FaultKind.NO_ANSWER})
EFFECT = (
    FaultKind.DIES_BEFORE,
    FaultKind.DIES_AFTER,
    FaultKind.NO_ANSWER_NO_EFFECT,
    FaultKind.NO_ANSWER,
    FaultKind.LATE_EFFECT,
    FaultKind.STOPPED,
)
LOOK = (FaultKind.DIES_BEFORE, FaultKind.NO_ANSWER_NO_EFFECT)


@attrs.frozen
class Point:
    """The number-th thing that a process did, and its name: a row of the table.

    Attributes:
        is_refused: Whether it is a transaction that was rolled back because the ledger refused it.
    """

    number: int
    name: str
    is_refused: bool = attrs.field(default=False, eq=False)

    @property
    def kinds(self) -> tuple[FaultKind, ...]:
        if self.is_refused:
            return REFUSED
        if not self.name.startswith("call "):
            return TRANSACTION
        return EFFECT if self.name.endswith((" create", " destroy", " seal")) else LOOK


@attrs.frozen
class Fault:
    """A fault at a point."""

    point: Point
    kind: FaultKind


class FaultHook:
    """Counts the points that one process passes, and lets one fault happen to it.

    Attributes:
        is_overdue: Whether a call takes effect in which the process was stopped: long after its
            timeout, when others may have created and destroyed the same thing.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.passed: list[Point] = []
        self.fault = fault
        self.hit = False
        self.stopped = threading.Event()
        self.woken = threading.Event()
        self.is_overdue = False
        self._now: FaultKind | None = None
        self._laid: tuple[int, FaultKind] | None = None

    def lay(self, ahead: int, kind: FaultKind) -> None:
        """Let the first point go wrong that comes after so many more and can go so wrong."""
        self._laid = (len(self.passed) + ahead, kind)

    def transaction(self, name: str, moment: Moment) -> None:
        """Listen to the transactions of the ledger."""
        if name in READS:
            return
        if moment is Moment.BEFORE_BEGIN:
            self._now = self._pass(name)
            self._mark_refused(is_refused=True)
            self._stop_if(FaultKind.STOPPED)
        elif moment is Moment.BEFORE_COMMIT:
            self._mark_refused(is_refused=False)
        if self._now is not None and _MOMENTS.get(self._now) is moment:
            if self._now in _ANSWERS_LOST:
                self._broken()
            self._die()

    def call(self, name: str, effect: Callable[[], _T], later: Callable[[], None]) -> _T:
        """Stand around a call to a store; `later` lets its effect land when time is nearly up."""
        now = self._now = self._pass(name)
        if now is FaultKind.DIES_BEFORE:
            self._die()
        was_stopped = self._stop_if(FaultKind.STOPPED)
        if now is FaultKind.NO_ANSWER_NO_EFFECT:
            self.hit = True
            raise TransientError("no answer")
        if now is FaultKind.LATE_EFFECT:
            self.hit = True
            later()
            raise TransientError("no answer")
        self.is_overdue = was_stopped
        result = effect()
        self.is_overdue = False
        if now is FaultKind.DIES_AFTER:
            self._die()
        if now is FaultKind.NO_ANSWER:
            self.hit = True
            raise TransientError("no answer")
        return result

    def _pass(self, name: str) -> FaultKind | None:
        point = Point(len(self.passed), name)
        self.passed.append(point)
        if self.fault is not None and not self.hit and self.fault.point == point:
            return self.fault.kind
        if self._laid is None:
            return None
        number, kind = self._laid
        if point.number < number or kind not in point.kinds:
            return None
        self._laid = None
        return kind

    def _mark_refused(self, *, is_refused: bool) -> None:
        """Note of the last transaction whether it has come to its COMMIT."""
        self.passed[-1] = attrs.evolve(self.passed[-1], is_refused=is_refused)

    def _die(self) -> None:
        self.hit = True
        raise Crash

    def _broken(self) -> None:
        self.hit, self._now = True, None
        raise BrokenConnection

    def _stop_if(self, kind: FaultKind) -> bool:
        """Stop until others have ended everything, if this is the fault; return whether it was."""
        if self._now is not kind:
            return False
        self.hit, self._now = True, None
        self.stopped.set()
        self.woken.wait()
        return True


@attrs.define
class Store:
    """The things of one kind that outlive every process, and calls that have not landed yet."""

    things: InMemoryAdapter
    late: list[Callable[[], None]] = attrs.field(factory=list)
    made: list[str] = attrs.field(factory=list)

    def create(self, name: str, spec: AssetSpec, asset_id: int, *, is_overdue: bool) -> None:
        # What an overdue call creates is a stray, which an audit destroys.
        if not is_overdue and not self.things.list(name, timeout_s=1.0):
            self.made.append(name)
        self.things.create(name, spec, asset_id=asset_id, timeout_s=1.0)

    def land(self) -> None:
        """Let what is under way take effect: the last moment at which it can."""
        while self.late:
            # Nobody is there any more to hear that the store refuses.
            with contextlib.suppress(StoreError):
                self.late.pop(0)()


@attrs.define
class Copies:
    """The names with snapshots, which outlive every process, and deletions under way."""

    names: set[str] = attrs.field(factory=set)
    late: list[Callable[[], None]] = attrs.field(factory=list)

    def land(self) -> None:
        """Let the deletions under way take effect."""
        while self.late:
            self.late.pop(0)()


@attrs.frozen
class FaultHookedSnapshots:
    """The snapshots as one process sees them: every call is a point."""

    copies: Copies
    fault_hook: FaultHook
    before_delete: Callable[[str], None]

    def names(self) -> tuple[str, ...]:
        return self.fault_hook.call(
            "call snapshot list", lambda: tuple(sorted(self.copies.names)), lambda: None
        )

    def delete(self, name: str) -> None:
        def effect() -> None:
            self.copies.names.discard(name)

        self.before_delete(name)
        self.fault_hook.call(
            "call snapshot destroy", effect, lambda: self.copies.late.append(effect)
        )


@attrs.frozen
class FaultHookedAdapter:
    """A store as one process sees it: every call is a point."""

    store: Store
    fault_hook: FaultHook
    before_destroy: Callable[[str], None]

    @property
    def kind(self) -> AssetKind:
        return self.store.things.kind

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        try:
            return self.fault_hook.call(
                f"call {self.kind.value} probe",
                lambda: self.store.things.probe(name, spec, timeout_s=timeout_s),
                lambda: None,
            )
        except TransientError as error:
            return Unknown(str(error))

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        del timeout_s
        self._effect(
            "create",
            lambda: self.store.create(name, spec, asset_id, is_overdue=self.fault_hook.is_overdue),
        )

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        def effect() -> None:
            self.store.things.destroy(name, external_id=external_id, timeout_s=timeout_s)

        self.before_destroy(name)
        self._effect("destroy", effect)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        return self.fault_hook.call(
            f"call {self.kind.value} list",
            lambda: self.store.things.list(prefix, timeout_s=timeout_s),
            lambda: None,
        )

    def _effect(self, what: str, effect: Callable[[], None]) -> None:
        self.fault_hook.call(
            f"call {self.kind.value} {what}", effect, lambda: self.store.late.append(effect)
        )


def is_there(adapter: Adapter, name: str, spec: AssetSpec) -> bool:
    """Whether an asset with the name exists."""
    return not isinstance(adapter.probe(name, spec, timeout_s=1.0), Absent)
