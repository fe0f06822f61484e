"""The server's rounds of counting reads: what branches serve, and the reads of this process."""

from uuid import UUID

from narthex_ledger import BranchId, BranchView, Ledger, ReadEntity, ReadKind
from narthex_server.background_loop import BackgroundLoop
from narthex_server.definitions.bundles import read_bundle
from narthex_server.services.container import Services
from narthex_server.services.read_instants import EVERY_S, store_reads


class UsageSampling:
    """Stores what was read, and begins to count the reads of what branches serve newly."""

    def __init__(self, services: Services) -> None:
        """Prepare the rounds."""
        self._ledger: Ledger = services.ledger
        self._tenant = services.tenant
        self._instants = services.meters.reads
        self._followed: dict[BranchId, UUID | None] = {}

    def loop(self) -> BackgroundLoop:
        """Return the loop of a round each minute, and of a last one when it stops."""
        return BackgroundLoop(
            self.sample,
            name="last-reads",
            event="reads_not_stored",
            pause_s=lambda: EVERY_S,
            ends_with_round=True,
        )

    def sample(self) -> None:
        """Do one round.

        Raises:
            LedgerError: The ledger does not answer; the reads are stored in a later round.
        """
        store_reads(self._ledger, self._tenant, self._instants)
        active = [one for one in self._ledger.branches.all(self._tenant) if one.state == "active"]
        self._followed = {
            branch.branch_id: branch.serving_commit_id for branch in active if self._follow(branch)
        }
        self._ledger.last_reads.forget()

    def _follow(self, branch: BranchView) -> bool:
        """Return whether exactly the entities that a branch serves are counted."""
        commit_id = branch.serving_commit_id
        if self._followed.get(branch.branch_id, branch) == commit_id:
            return True
        entities = [] if commit_id is None else self._entities(commit_id)
        return self._ledger.last_reads.follow(branch.branch_id, commit_id, entities)

    def _entities(self, commit_id: UUID) -> list[ReadEntity]:
        definitions = read_bundle(self._ledger.bundles.of_commit(commit_id)).definitions
        return [
            *((ReadKind.DATASET, dataset.name) for dataset in definitions.datasets),
            *(
                (ReadKind.FEATURE, f"{featureset.name}.{feature.name}")
                for featureset in definitions.featuresets
                for feature in featureset.features
            ),
        ]
