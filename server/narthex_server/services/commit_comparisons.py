"""The differences of commits from their predecessors: compiled once, as neither ever changes."""

from typing import Final
from uuid import UUID

import attrs

from narthex._analysis import ChangeCause, Changes, change_causes, compare
from narthex._ir import Blueprint, Definitions
from narthex_ledger import CommitView, Ledger
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.executor import definitions_of
from narthex_server.services.bounded_cache import BoundedCache

MOST_KEPT: Final = 4
"""How many comparisons are kept; one of 300 datasets takes several megabytes."""


@attrs.frozen(kw_only=True)
class CommitComparison:
    """The definitions of a commit and of its predecessor, and their difference.

    Attributes:
        before: The definitions of the predecessor; None for the first commit of a branch.
        reasons: The first causes of differences between assets.
    """

    before: Definitions | None
    after: Definitions
    changes: Changes
    blueprint: Blueprint
    reasons: tuple[ChangeCause, ...]


class CommitComparisons:
    """Compares commits with their predecessors, and keeps the results that were used last."""

    def __init__(self, ledger: Ledger) -> None:
        """Create it without any result."""
        self._ledger = ledger
        self._kept: BoundedCache[UUID, CommitComparison] = BoundedCache(MOST_KEPT)

    def of(self, commit: CommitView) -> CommitComparison | None:
        """Return the comparison of a commit that has a manifest; None if it has no definitions."""
        kept = self._kept.get(commit.commit_id)
        if kept is not None:
            return kept
        made = self._compare(commit)
        return None if made is None else self._kept.put(commit.commit_id, made, weight=1)

    def _compare(self, commit: CommitView) -> CommitComparison | None:
        after = definitions_of(self._ledger, commit.commit_id)
        if after is None:
            return None
        before = definitions_of(self._ledger, commit.parent_commit_id)
        changes = compare(before, after, incremental=False)
        return CommitComparison(
            before=before,
            after=after,
            changes=changes,
            blueprint=compile_definitions(changes.definitions),
            reasons=change_causes(before, changes.definitions),
        )
