"""The lookups of one request: each index is read in one snapshot, from its first use to the end."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from typing_extensions import override

from narthex._base import NOWHERE
from narthex._ir import Cell, DatasetPlan
from narthex.errors import HistoryExpired
from narthex_server.errors import IndexUnavailable
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.tracing import is_recording, span
from narthex_stores import IndexMissingError, IndexReader, LookupResult


class ReadSession(AbstractContextManager["ReadSession"]):
    """The lookups of one request.

    Attributes:
        offsets: The log offsets that the answers contain: dataset to topic to partition; None
            before the end, and unless they are wanted.
    """

    __slots__ = ("_contexts", "_is_recording", "_readers", "_snapshot", "_wants_offsets", "offsets")

    def __init__(self, snapshot: BranchSnapshot, *, wants_offsets: bool = False) -> None:
        """Open no index yet."""
        self._snapshot = snapshot
        self._wants_offsets = wants_offsets
        self._is_recording = is_recording()
        self.offsets: dict[str, dict[str, dict[str, int]]] | None = None
        self._readers: dict[str, IndexReader] = {}
        self._contexts: list[AbstractContextManager[IndexReader]] = []

    @override
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._wants_offsets = False
        self.end()

    def end(self) -> None:
        """Close the indexes; nothing can be looked up any more."""
        if self._wants_offsets and self.offsets is None:
            self.offsets = self._offsets_read()
        while self._contexts:
            self._contexts.pop().__exit__(None, None, None)

    def lookup(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> list[LookupResult | None]:
        """Answer lookups of one dataset.

        Raises:
            IndexUnavailable: The index is missing; it may disappear between two lookups.
            InvalidRequest: The dataset has no index.
            HistoryExpired: Its index has deleted rows that a lookup as of that instant needs.
        """
        if not self._is_recording:
            return self._found(plan.name, keys, as_of)
        with span("look up", {"narthex.dataset": plan.name, "narthex.keys": len(keys)}):
            return self._found(plan.name, keys, as_of)

    def _found(
        self, name: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> list[LookupResult | None]:
        try:
            reader = self._readers.get(name)
            if reader is None:
                context = self._snapshot.index(name).read()
                reader = self._readers[name] = context.__enter__()
                self._contexts.append(context)
            return reader.lookup(keys, as_of)
        except IndexMissingError:
            raise IndexUnavailable(name) from None
        except HistoryExpired as error:
            raise error.located(NOWHERE, subject=f"dataset `{name}`") from None

    def _offsets_read(self) -> dict[str, dict[str, dict[str, int]]]:
        read: dict[str, dict[str, dict[str, int]]] = {}
        for dataset, reader in self._readers.items():
            topics = read[dataset] = {}
            for (topic, partition), offset in reader.offsets.items():
                topics.setdefault(topic, {})[str(partition)] = offset
        return read
