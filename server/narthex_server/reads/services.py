"""The objects that reads need, in a server or in a process that only answers reads."""

import attrs

from narthex._runtime.workers import Compartments
from narthex.settings import Settings
from narthex_ledger import Ledger, TenantId
from narthex_server.reads.follower import Follower
from narthex_server.security.dataset_access import Access
from narthex_server.security.known_tokens import KnownTokens
from narthex_server.security.principals import Principal
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.meters import Meters
from narthex_server.services.query_log import QueryLog
from narthex_server.services.shared_sources import SharedSources
from narthex_stores import EndOffsetReader


@attrs.frozen(kw_only=True)
class ReadServices:
    """The objects that answer reads; one of each in a process.

    Attributes:
        ends: Reads the end offsets of topics.
    """

    settings: Settings
    ledger: Ledger
    tenant: TenantId
    tokens: KnownTokens
    snapshots: SnapshotCache
    shared: SharedSources
    workers: Compartments
    query_log: QueryLog
    meters: Meters
    ends: EndOffsetReader

    def access(self, principal: Principal, branch: str) -> Access:
        """Return the access of a principal to a branch, which waits for no service."""
        return Access(
            principal=principal,
            branch=branch,
            ledger=self.ledger,
            tenant=self.tenant,
            snapshots=self.snapshots,
            shared_sources=self.shared,
            may_be_recent=True,
        )

    def close(self) -> None:
        """End the connections and threads of a process that only answers reads."""
        self.workers.close()
        self.query_log.producer.close()
        self.ends.close()
        self.ledger.close()

    def follower(self) -> Follower:
        """Return the threads that refresh these objects."""
        return Follower(snapshots=self.snapshots, tokens=self.tokens, shared=self.shared)
