"""Which worker runs which code: one for each branch and each set of tags that reaches the code."""

from collections.abc import Sequence

import attrs

from narthex._runtime.workers import CodeCalls, Compartments
from narthex_server.services.branch_snapshots import BranchSnapshot


@attrs.frozen
class BranchCalls:
    """Calls the code that is deployed on a branch, each in the compartment of its tags."""

    compartments: Compartments
    branch: str
    snapshot: BranchSnapshot

    def reaching(self, features: Sequence[str]) -> CodeCalls:
        """Return what calls the extractor that makes some features."""
        tags = self.snapshot.reaching(("feature", name) for name in features)
        return self.compartments.compartment(self.branch, tags)

    def feeding(self, dataset: str) -> CodeCalls:
        """Return what calls the code of a dataset's sources."""
        tags = self.snapshot.reaching([("dataset", dataset)])
        return self.compartments.compartment(self.branch, tags)
