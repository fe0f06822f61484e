"""The stores of an erasure in the world of crash tests: copied topics, targets, and a search."""

from collections.abc import Callable, Sequence

import attrs

from narthex._ir import SinkJobSpec
from narthex_ledger import Desired, ErasureView, JobView, ObsoleteSink, Successor
from narthex_server.erasures.erased_stores import SearchResult
from narthex_stores import RowEnds
from tests.crash.points import FaultHook


@attrs.define
class CopiedTopics:
    """The topics of endpoints, which outlive every process.

    Attributes:
        sealed: Topics that refuse records.
        whole: Topics that have all records of the sealed topic before them.
        residue: Places where a search finds something, until they are cleaned.
        ended: Logs in which the erased rows have ended.
        deleted: The jobs of sinks that have deleted these rows from their targets.
        are_down: Whether the targets of sinks accept nothing.
        wrong: What sinks did that they may not.
    """

    sealed: set[str] = attrs.field(factory=set)
    whole: set[str] = attrs.field(factory=set)
    residue: list[str] = attrs.field(factory=list)
    ended: set[str] = attrs.field(factory=set)
    deleted: set[str] = attrs.field(factory=set)
    are_down: bool = False
    wrong: list[str] = attrs.field(factory=list)

    def run_sinks(self, jobs: Sequence[JobView]) -> None:
        """Let the sinks that run write what their logs have."""
        running = [job.asset for job in jobs if job.desired is Desired.RUNNING]
        sinks = [asset for asset in running if isinstance(asset.spec, SinkJobSpec)]
        for sink in sinks:
            log = next(n.physical_name for n in sink.needs if n.role.startswith("input:"))
            if log in self.ended and not self.are_down:
                self.deleted.add(sink.physical_name)
        by_print = [asset.fingerprint for asset in sinks]
        self.wrong += [
            f"`{asset.physical_name}` writes beside another incarnation"
            for asset in sinks
            if by_print.count(asset.fingerprint) > 1
        ]


@attrs.frozen
class ErasedStoresInMemory:
    """The stores as one process sees them: every call is a point."""

    topics: CopiedTopics
    there: Callable[[], dict[str, str]]
    fault_hook: FaultHook
    writers: Callable[[], Sequence[str]] = tuple
    """The obsolete jobs that may still write to logs."""

    def copy(self, erasure: ErasureView, successor: Successor) -> None:
        del erasure
        self.fault_hook.call("call topic copy", lambda: None, lambda: None)
        del successor

    def seal_and_copy(self, erasure: ErasureView, successor: Successor) -> None:
        del erasure

        def effect() -> None:
            self.topics.sealed.add(successor.old_name)
            self.topics.whole.add(str(successor.new_name))

        self.fault_hook.call("call topic seal", effect, lambda: None)

    def why_not_deleted(self, sinks: Sequence[ObsoleteSink]) -> dict[str, str]:
        del sinks
        return self.fault_hook.call("call target look", dict[str, str], lambda: None)

    def end_rows(self, sink: ObsoleteSink) -> RowEnds:
        def effect() -> RowEnds:
            self.topics.wrong += [f"rows end while {name} runs" for name in self.writers()]
            self.topics.ended.add(sink.log)
            return RowEnds(rows=2, until={0: 3})

        return self.fault_hook.call("call rows end", effect, lambda: None)

    def has_written(self, sink: ObsoleteSink, ends: RowEnds) -> bool:
        del ends
        return self.fault_hook.call(
            "call target ask", lambda: sink.physical_name in self.topics.deleted, lambda: None
        )

    def clean(self, erasure: ErasureView, names: Sequence[str]) -> bool:
        del erasure, names
        return bool(self.fault_hook.call("call erased clean", lambda: None, lambda: None))

    def search(self, erasure: ErasureView, names: Sequence[str]) -> SearchResult:
        """Search what is outside for the obsolete assets."""
        del erasure

        def look() -> tuple[str, ...]:
            return (*sorted(self.there().keys() & set(names)), *self.topics.residue)

        found = self.fault_hook.call("call erased search", look, lambda: None)
        return SearchResult(found=found, searched=("all",), kept=(), anywhere=1, in_columns=0)
