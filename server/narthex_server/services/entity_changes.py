"""The commits of a branch that changed an entity, from the definitions that each deployed."""

from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import UUID

from narthex._analysis import changes_by_entity
from narthex._ir import Definitions
from narthex_ledger import BranchId, CommitView, Ledger
from narthex_server.deploy.executor import definitions_of
from narthex_server.services.bounded_cache import BoundedCache

LOOKED_AT: Final = 10
"""How many of the newest commits of a branch are compared with their predecessors.

The first look at a branch of 300 datasets decodes each at about 0.15 s of CPU.
"""

LINES_KEPT: Final = 20_000
"""How many lines about commits are kept."""

EntityLines: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]
"""By kind and name of a dataset or featureset: lines for people, as `changes_by_entity`."""


class EntityChanges:
    """Compares each commit with its predecessor once, as neither ever changes."""

    def __init__(self, ledger: Ledger) -> None:
        """Create it without any result."""
        self._ledger = ledger
        self._kept: BoundedCache[UUID, EntityLines] = BoundedCache(LINES_KEPT)

    def of(self, branch: BranchId, kind: str, name: str) -> list[tuple[CommitView, list[str]]]:
        """Return the newest commits that changed an entity, newest first, each with its lines.

        Commits that did not take effect are not among them.

        Args:
            branch: The branch; its newest 10 commits are looked at.
            kind: `dataset` or `featureset`.
            name: The entity.
        """
        decoded: dict[UUID, Definitions | None] = {}
        newest = self._ledger.commits.newest(LOOKED_AT, branch=branch)
        committed = [one for one in newest if one.seq is not None]
        return [
            (commit, [*lines])
            for commit in committed
            if (lines := self._lines(commit, decoded).get((kind, name)))
        ]

    def _lines(self, commit: CommitView, decoded: dict[UUID, Definitions | None]) -> EntityLines:
        kept = self._kept.get(commit.commit_id)
        if kept is not None:
            return kept
        after = self._definitions(commit.commit_id, decoded)
        before = self._definitions(commit.parent_commit_id, decoded)
        found: EntityLines = {} if after is None else changes_by_entity(before, after)
        weight = 1 + sum(map(len, found.values()))
        return self._kept.put(commit.commit_id, found, weight=weight)

    def _definitions(
        self, commit_id: UUID | None, decoded: dict[UUID, Definitions | None]
    ) -> Definitions | None:
        """Return the definitions of a commit; the predecessor of one is the next that is asked."""
        if commit_id is None:
            return None
        if commit_id not in decoded:
            decoded[commit_id] = definitions_of(self._ledger, commit_id)
        return decoded[commit_id]
