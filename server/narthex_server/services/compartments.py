"""The choice of a worker for code: one for each branch and set of tags that reaches it."""

from collections.abc import Sequence
from typing import Final

import attrs

from narthex._runtime.workers import CodeCalls, Compartments
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.traced_calls import TracedCalls
from narthex_server.tracing import is_recording

MOST_WORKERS: Final = 6
"""How many compartments of a process have a worker at the same time; each takes some 14 MB."""


@attrs.frozen
class BranchCalls:
    """Calls the code deployed on a branch, each part in the compartment of its tags."""

    compartments: Compartments
    branch: str
    snapshot: BranchSnapshot

    def reaching(self, features: Sequence[str]) -> CodeCalls:
        """Return the caller of the extractor that computes these features."""
        tags = self.snapshot.reaching(("feature", name) for name in features)
        return self._compartment(tags)

    def feeding(self, dataset: str) -> CodeCalls:
        """Return the caller of the code of a dataset's sources."""
        tags = self.snapshot.reaching([("dataset", dataset)])
        return self._compartment(tags)

    def _compartment(self, tags: frozenset[str]) -> CodeCalls:
        found = self.compartments.compartment(self.branch, tags)
        return TracedCalls(found) if is_recording() else found
