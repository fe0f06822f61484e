"""The public API of the ledger, composed of one part per topic."""

import datetime as dt
from collections.abc import Collection, Mapping
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.alerts.alert_api import Alerts
from narthex_ledger.branches.branch_api import Branches
from narthex_ledger.commits.commit_api import Assets, Commits, Promotions
from narthex_ledger.db import format_rows as on_formats
from narthex_ledger.db.formats import require_newest, require_readable
from narthex_ledger.db.migrate import schema_number
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import offline as on_offline
from narthex_ledger.db.statements import quality_audits as on_audits
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.db.transactions import FaultHook, Transactions, no_faults
from narthex_ledger.erasures.erasure_api import Erasures
from narthex_ledger.errors import NotFound
from narthex_ledger.gc import auditing
from narthex_ledger.gc.collector_api import GarbageCollection
from narthex_ledger.jobs_and_slots.job_api import Backfills, DriverBackfills, Engines, Jobs, Slots
from narthex_ledger.jobs_and_slots.watermark_api import Watermarks
from narthex_ledger.lineage.lineage_api import LineageEvents
from narthex_ledger.metrics.metric_api import Metrics
from narthex_ledger.model.audit_views import AuditView, InstallView, ValueDiffView
from narthex_ledger.model.views import Rules, TenantId
from narthex_ledger.reading.manifest_api import Bundles, Manifests
from narthex_ledger.requests.drift_api import Drift, FeatureSummaries
from narthex_ledger.requests.offline_query_api import OfflineQueries
from narthex_ledger.requests.training_set_api import TrainingSets
from narthex_ledger.requests.webhook_calls import WebhookCalls
from narthex_ledger.security.sealed_row_api import SealedRows
from narthex_ledger.security.signature_api import Signatures
from narthex_ledger.security.token_api import ControlLog, Tokens
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import Signer, Verifier
from narthex_ledger.usage.last_read_api import LastReads


@attrs.frozen
class LedgerInstallation:
    """The installation and its tenants."""

    _db: LedgerDatabase

    def create(self, install_id: str, *, slots: int = 16) -> InstallView:
        """Name the installation and create its slots; the first call decides both."""

        def work(connection: Connection) -> InstallView:
            on_offline.put_install(connection, install_id)
            if on_jobs.slot_count(connection, self._db.rules.slot_space) == 0:
                on_jobs.put_slots(connection, self._db.rules.slot_space, slots)
            row = on_reading.install_row(connection)
            if row is None:
                raise NotFound("the installation has no identity")
            return row

        return self._db.run("install", work)

    def ensure_tenant(self, slug: str) -> TenantId:
        """Find or create a tenant."""
        return self._db.run("ensure_tenant", lambda c: on_commits.put_tenant(c, slug))

    def formats(self) -> dict[str, int]:
        """Return the version of the format of each kind of store that is recorded, by kind."""
        return self._db.run("formats", on_formats.recorded_formats)

    def record_formats(self, known: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Record the versions that this release writes; return those that grew, old and new.

        Args:
            known: The version of each kind of store. A kind that was never recorded had 1.

        Raises:
            InstallationIsNewer: A recorded version is higher; nothing was recorded.
        """

        def work(connection: Connection) -> dict[str, tuple[int, int]]:
            found = on_formats.recorded_formats(connection, locked=True)
            require_readable(found, known)
            on_formats.put_formats(connection, known)
            before = {kind: found.get(kind, 1) for kind in known}
            return {
                kind: (before[kind], version)
                for kind, version in known.items()
                if before[kind] < version
            }

        return self._db.run("record_formats", work)

    def require_current(self, known: Mapping[str, int]) -> None:
        """Require that the ledger and the stores are in the formats of this release.

        Raises:
            InstallationIsNewer: A later release wrote them.
            UpgradeNeeded: The ledger was not upgraded to this release.
        """

        def work(connection: Connection) -> None:
            require_newest(schema_number(connection))
            require_readable(on_formats.recorded_formats(connection), known)

        self._db.run("require_current", work)

    def identity(self) -> str:
        """Return the id of the ledger database's history; a restore or a copy changes it."""
        return self._db.run("identity", auditing.identity)


@attrs.frozen
class Audits:
    """Outcomes of audits."""

    _db: LedgerDatabase

    def record(self, audit: AuditView) -> None:
        """Store an audit's outcome; the same id, or a second outcome of a gate, changes nothing."""
        self._db.run("record_audit", lambda c: on_audits.put_audit(c, audit))

    def newest(
        self,
        limit: int = 50,
        *,
        branches: Collection[str] | None = None,
        dataset: str | None = None,
    ) -> tuple[AuditView, ...]:
        """List audits, the newest first: of all or of some branches, of all or of one dataset."""
        return self._db.run("audits", lambda c: on_audits.audit_rows(c, limit, branches, dataset))

    def newest_of_datasets(self, *, within: dt.timedelta) -> tuple[AuditView, ...]:
        """List the newest audits of each dataset that readers read, if they are young enough."""
        return self._db.run("newest_audits", lambda c: on_audits.newest_of_datasets(c, within))

    def gates(self, commit_id: UUID) -> tuple[AuditView, ...]:
        """List the outcomes of a commit's quality gates, by dataset."""
        return self._db.run("gates", lambda c: on_audits.gate_rows(c, commit_id))

    def forget_examples(self, *, older_than: dt.timedelta) -> int:
        """Delete the keys of rows that old audits name; return of how many audits."""
        return self._db.run("forget_examples", lambda c: on_audits.delete_examples(c, older_than))


@attrs.frozen
class ValueDiffs:
    """Differences between commits and what readers read, in values."""

    _db: LedgerDatabase

    def record(self, diff: ValueDiffView) -> None:
        """Store the diff of a dataset; a second one of the same commit changes nothing."""
        self._db.run("record_diff", lambda c: on_audits.put_diff(c, diff))

    def of_commit(self, commit_id: UUID) -> tuple[ValueDiffView, ...]:
        """List the diffs of a commit, by dataset."""
        return self._db.run("value_diffs", lambda c: on_audits.diff_rows(c, commit_id))

    def forget_examples(self, *, older_than: dt.timedelta) -> int:
        """Delete the keys and values of rows that old diffs have; return of how many diffs."""
        return self._db.run("forget_diffs", lambda c: on_audits.delete_diff_examples(c, older_than))


class Ledger:
    """The ledger's actual and desired state; one object per process, shared by threads."""

    def __init__(
        self,
        dsn: str,
        *,
        rules: Rules | None = None,
        clock_shift: dt.timedelta = dt.timedelta(0),
        fault_hook: FaultHook = no_faults,
        signer: Signer | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        """Open the ledger at an SQLAlchemy URL; it connects on first use.

        `clock_shift` and `fault_hook` are for tests: sessions with a later clock, and crash points.
        """
        self._transactions = Transactions(dsn, clock_shift=clock_shift, fault_hook=fault_hook)
        database = LedgerDatabase(
            transactions=self._transactions,
            rules=Rules() if rules is None else rules,
            signer=signer,
            verifier=verifier or (None if signer is None else signer.verifier),
        )
        self.alerts = Alerts(database)
        self.assets = Assets(database)
        self.audits = Audits(database)
        self.backfills = Backfills(database)
        self.branches = Branches(database)
        self.bundles = Bundles(database)
        self.commits = Commits(database)
        self.control_log = ControlLog(database)
        self.drift = Drift(database)
        self.driver_backfills = DriverBackfills(database)
        self.engines = Engines(database)
        self.erasures = Erasures(database)
        self.feature_summaries = FeatureSummaries(database)
        self.gc = GarbageCollection(database)
        self.installation = LedgerInstallation(database)
        self.manifests = Manifests(database)
        self.jobs, self.last_reads = Jobs(database, self.manifests.assets), LastReads(database)
        self.lineage, self.metrics = LineageEvents(database), Metrics(database)
        self.offline_queries = OfflineQueries(database)
        self.promotions = Promotions(database)
        self.secrets, self.connections = (
            SealedRows(database, kind) for kind in ("secret", "connection")
        )
        self.signatures = Signatures(database)
        self.slots = Slots(database)
        self.tokens = Tokens(database)
        self.training_sets = TrainingSets(database)
        self.value_diffs, self.watermarks = ValueDiffs(database), Watermarks(database)
        self.webhook_calls = WebhookCalls(database)

    def close(self) -> None:
        """Release all connections."""
        self._transactions.close()
