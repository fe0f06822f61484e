"""The model of branches: the predicted bindings of each commit.

Plain dicts and sets of fingerprints. The ledger determines which commits happened, and their order.
The model predicts their bindings before they are requested, and compares after every step.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

import attrs

from tests.crash.world import BLUEPRINTS, World

Bound = frozenset[str]
"""Fingerprints of everything that is bound."""

EMPTY: Bound = frozenset()


@attrs.frozen(kw_only=True)
class PredictedBindings:
    """The bindings of a commit; None if the commit must not happen.

    Attributes:
        beside: The bindings of a further commit that the platform creates for the same request.
    """

    bound: Bound | None
    beside: Bound = EMPTY


@attrs.define
class History:
    """Every commit that may have happened, and what its branch binds after it."""

    world: World
    _after: dict[UUID, Bound] = attrs.field(factory=dict)

    def foretell_deploy(self, wanted: str) -> PredictedBindings:
        return PredictedBindings(
            bound=frozenset(a.fingerprint.hex() for a in BLUEPRINTS[wanted].assets)
        )

    def foretell_clone(self, source: str) -> PredictedBindings:
        """A clone binds what its source does, and its readers what the source's read."""
        head, serving = self._pointers(source, state="active")
        return PredictedBindings(bound=self._of(head), beside=self._of(serving))

    def foretell_deletion(self, name: str) -> PredictedBindings:
        head, _ = self._pointers(name, state="active")
        return PredictedBindings(bound=self._of(head))

    def foretell_return(self, name: str) -> PredictedBindings:
        """A restored branch has the bindings of its deletion."""
        head, _ = self._pointers(name, state="deleted")
        return PredictedBindings(bound=self._of(head))

    def foretell_rollback(self, name: str, to_seq: int) -> PredictedBindings:
        """A rollback binds what the commit of that number did."""
        found = self.world.rows(
            "SELECT commit_id FROM deploy_commit JOIN branch USING (branch_id)"
            " WHERE name = :name AND branch.state = 'active' AND seq = :seq",
            name=name,
            seq=to_seq,
        )
        return PredictedBindings(bound=self._of(found[0]["commit_id"]) if found else None)

    def preview_revert(self, commit_id: UUID) -> PredictedBindings:
        """The branch of a commit that is taken back binds what its readers read."""
        found = self.world.rows(
            "SELECT serving_commit_id FROM branch JOIN deploy_commit USING (branch_id)"
            " WHERE commit_id = :commit",
            commit=commit_id,
        )
        return PredictedBindings(
            bound=None, beside=self._of(found[0]["serving_commit_id"]) if found else EMPTY
        )

    def ended(self, asked: UUID, foretold: PredictedBindings) -> None:
        """After a request, answered or not: remember what every new commit must bind."""
        for row in self.world.rows("SELECT commit_id FROM deploy_commit"):
            commit_id = row["commit_id"]
            if commit_id in self._after:
                continue
            if commit_id == asked:
                if foretold.bound is None:
                    raise AssertionError(f"commit {asked} happened and could not")
                self._after[commit_id] = foretold.bound
            else:
                self._after[commit_id] = foretold.beside

    def wrong(self, *, when_quiet: bool = False) -> Iterator[str]:
        """Say which branch binds, or shows its readers, something else than was foretold."""
        for row in self.world.rows(_BRANCHES):
            for pointer in ("head", "serving"):
                commit_id = row[f"{pointer}_commit_id"]
                if commit_id is not None and commit_id not in self._after:
                    yield f"no client requested commit {commit_id}, {pointer} of {row['name']}"
                elif frozenset(row[pointer]) != self._of(commit_id):
                    yield f"{pointer} of {row['name']} is not what commit {commit_id} was to bind"
            if when_quiet and frozenset(row["head"]) != frozenset(row["serving"]):
                yield f"readers of {row['name']} never came to its head"

    def _of(self, commit_id: UUID | None) -> Bound:
        return EMPTY if commit_id is None else self._after[commit_id]

    def _pointers(self, name: str, *, state: str) -> Sequence[UUID | None]:
        found = self.world.rows(
            "SELECT head_commit_id, serving_commit_id FROM branch"
            " WHERE name = :name AND state = :state ORDER BY deleted_at DESC LIMIT 1",
            name=name,
            state=state,
        )
        return tuple(found[0].values()) if found else (None, None)


_BRANCHES = """
SELECT name, head_commit_id, serving_commit_id,
       ARRAY(SELECT encode(fingerprint, 'hex') FROM deploy_commit
               JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
              WHERE commit_id = head_commit_id) AS head,
       ARRAY(SELECT encode(fingerprint, 'hex') FROM deploy_commit
               JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
              WHERE commit_id = serving_commit_id) AS serving
  FROM branch WHERE state = 'active'
"""
