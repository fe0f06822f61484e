"""The server runs each extractor in the compartment of its branch and of the tags that reach it."""

from uuid import UUID

from narthex._ir.entities import Definitions
from narthex._runtime.workers import CodeCalls, Compartments
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.compartments import BranchCalls
from tests.server.security.test_visibility import said
from tests.server.shop import shop_definitions


class RecordingCompartments(Compartments):
    """Records the requested compartments."""

    asked: tuple[str, frozenset[str]]

    def compartment(self, branch: str, tags: frozenset[str] = frozenset()) -> CodeCalls:
        self.asked = (branch, tags)
        return super().compartment(branch, tags)


def snapshot(definitions: Definitions) -> BranchSnapshot:
    return BranchSnapshot(
        commit_id=UUID(int=1),
        manifest_id=UUID(int=1),
        seq=1,
        definitions=definitions,
        plans={},
        bindings={},
        indexes=None,  # type: ignore[arg-type]  # nothing is looked up
    )


def test_code_runs_by_branch_and_by_all_tags_that_reach_it() -> None:
    tagged = said(said(shop_definitions(), "Orders", "money"), "Buyer.rank", "~money")
    with RecordingCompartments(1) as compartments:
        calls = BranchCalls(compartments, "dev", snapshot(tagged))

        calls.reaching(["Buyer.is_busy"])
        assert compartments.asked == ("dev", frozenset({"money"}))

        calls.reaching(["Buyer.rank"])
        assert compartments.asked == ("dev", frozenset({"money"})), "a cancelled tag has come"

        calls.feeding("Users")
        assert compartments.asked == ("dev", frozenset())

        calls.feeding("Orders")
        assert compartments.asked == ("dev", frozenset({"money"}))
