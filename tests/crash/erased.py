"""The stores of an erasure in the world of crash tests: topics that are copied, and a search."""

from collections.abc import Callable, Sequence

import attrs

from narthex_ledger import ErasureView, Successor
from narthex_server.erasures.erased_stores import SearchResult
from tests.crash.points import FaultHook


@attrs.define
class CopiedTopics:
    """The topics of endpoints, which outlive every process.

    Attributes:
        sealed: Topics that refuse records.
        whole: Topics that have all records of the sealed topic before them.
        residue: Places where a search finds something, until they are cleaned.
    """

    sealed: set[str] = attrs.field(factory=set)
    whole: set[str] = attrs.field(factory=set)
    residue: list[str] = attrs.field(factory=list)


@attrs.frozen
class ErasedStoresInMemory:
    """The stores as one process sees them: every call is a point."""

    topics: CopiedTopics
    there: Callable[[], dict[str, str]]
    fault_hook: FaultHook

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
