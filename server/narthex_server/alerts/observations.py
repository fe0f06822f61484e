"""The observations that the rules are evaluated on, read from the ledger and the broker."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import structlog
from cryptography import x509

from narthex._base import Json
from narthex._ir import (
    QuarantineRate,
)
from narthex_ledger import (
    AuditView,
    DriftView,
    EndedCommitView,
    Ledger,
    TokenView,
    progress_of,
)
from narthex_server.alerts.configuration import AlertsFile
from narthex_server.services.served_branches import (
    RunningJob,
    ServedBranch,
    ServedBranches,
    ServedDataset,
)
from narthex_stores import EndOffsetReader, StoreError

log = structlog.get_logger()

COMMITS_WITHIN: Final = dt.timedelta(days=1)
"""For how long a failed commit is an alert, if no later one of its branch ends."""

AUDITS_WITHIN: Final = dt.timedelta(days=7)
"""For how long the result of an audit counts, if no later one of its dataset is stored."""

MOST_CERTIFICATE_BYTES: Final = 4 << 20


@attrs.frozen(kw_only=True)
class Arrivals:
    """How many rows arrived in a window: in a dataset, and in its quarantine."""

    rows: int
    quarantined: int

    @property
    def rate(self) -> float:
        """The share of quarantined rows; 0 if none arrived."""
        return self.quarantined / (self.rows + self.quarantined) if self.quarantined else 0.0


@attrs.frozen(kw_only=True)
class Certificate:
    """A certificate that the installation uses."""

    name: str
    ends_at: dt.datetime


@attrs.frozen(kw_only=True)
class Observations:
    """All that the rules are evaluated on, at one instant.

    Attributes:
        branches: `main` first, then by name: a shared job is an alert of the first one.
        jobs: Those of their jobs that ought to run.
        newest: The event time of the newest row that each feed has written, microseconds.
        arrivals: The rows that arrived, by the topic of a dataset and the length of the window;
            None while the broker does not answer.
        restarts: The instants and counts of restarts that each supervisor reported before.
    """

    now: dt.datetime
    branches: tuple[ServedBranch, ...]
    jobs: Mapping[int, RunningJob]
    newest: Mapping[int, int]
    arrivals: Mapping[tuple[str, int], Arrivals] | None
    commits: tuple[EndedCommitView, ...]
    audits: tuple[AuditView, ...]
    drift: tuple[DriftView, ...]
    tokens: tuple[TokenView, ...]
    certificates: tuple[Certificate, ...]
    restarts: Mapping[str, tuple[tuple[dt.datetime, int], ...]]


@attrs.frozen(kw_only=True)
class Observer:
    """Reads observations."""

    ledger: Ledger
    served: ServedBranches
    ends: EndOffsetReader
    ca_file: str

    def observe(self, file: AlertsFile, *, now: dt.datetime, memory: Json) -> Observations:
        """Return the observations of now.

        Args:
            file: The alerts file: the windows of rates, and further certificates.
            now: The instant of the ledger's clock.
            memory: The result of `remembered` for the previous observations.

        Raises:
            LedgerError: The ledger does not answer.
        """
        branches = self.served.now()
        jobs = self.served.running(branches)
        before = memory if isinstance(memory, dict) else {}
        return Observations(
            now=now,
            branches=branches,
            jobs=jobs,
            newest=newest_rows(jobs, before.get("newest")),
            arrivals=self._arrivals(branches, file, now),
            commits=self.ledger.alerts.newest_ended_commits(within=COMMITS_WITHIN),
            audits=self.ledger.audits.newest_of_datasets(within=AUDITS_WITHIN),
            drift=self.ledger.drift.current(),
            tokens=self.ledger.tokens.all(),
            certificates=tuple(
                certificate
                for path in (self.ca_file, *file.rules.certificate_expiry.files)
                if path
                for certificate in certificates_in(Path(path))
            ),
            restarts=restarts_of(
                self.ledger.engines.infos(),
                before.get("restarts"),
                now=now,
                window=file.rules.job_restarts.window,
            ),
        )

    def _arrivals(
        self, branches: Iterable[ServedBranch], file: AlertsFile, now: dt.datetime
    ) -> Mapping[tuple[str, int], Arrivals] | None:
        """Count the rows that arrived in the windows of all bounds; None without an answer."""
        by_window: dict[int, list[ServedDataset]] = {}
        for branch in branches:
            for dataset in branch.datasets:
                for window_us in windows_of(dataset, file):
                    by_window.setdefault(window_us, []).append(dataset)
        found: dict[tuple[str, int], Arrivals] = {}
        try:
            for window_us, datasets in by_window.items():
                topics = {topic for one in datasets for topic in (one.log, one.quarantine)}
                begin = now - dt.timedelta(microseconds=window_us)
                counts = self.ends.appended_since(topics, int(begin.timestamp() * 1000))
                for one in datasets:
                    found[one.log, window_us] = Arrivals(
                        rows=counts.get(one.log, 0), quarantined=counts.get(one.quarantine, 0)
                    )
        except StoreError as error:
            log.warning("quarantine_rates_unknown", error=str(error))
            return None
        return found


def remembered(observations: Observations) -> Json:
    """Return what the next observations need of these."""
    return {
        "newest": {str(feed_id): us for feed_id, us in sorted(observations.newest.items())},
        "restarts": {
            supervisor: [[at.isoformat(), count] for at, count in counts]
            for supervisor, counts in sorted(observations.restarts.items())
        },
    }


def windows_of(dataset: ServedDataset, file: AlertsFile) -> frozenset[int]:
    """Return the windows, in microseconds, of all bounds on the quarantine rate of a dataset."""
    if not dataset.quarantine:
        return frozenset()
    rule = file.rules.quarantine_rate
    general = () if rule.max_rate is None else (rule.window // dt.timedelta(microseconds=1),)
    declared = (one.bound for one in dataset.bounds)
    own = (bound.window_us for bound in declared if isinstance(bound, QuarantineRate))
    return frozenset((*general, *own))


def newest_rows(jobs: Mapping[int, RunningJob], before: Json) -> dict[int, int]:
    """Return the newest event time of each feed that still exists, microseconds.

    A feed that has just started reports none: then its previous one counts.
    """
    known = before if isinstance(before, dict) else {}
    found: dict[int, int] = {}
    for asset_id, job in jobs.items():
        reported = progress_of(job).get("newest_event_time"), known.get(str(asset_id))
        times = [one for one in reported if isinstance(one, int)]
        if times:
            found[asset_id] = max(times)
    return found


def restarts_of(
    infos: Mapping[str, Json], before: Json, *, now: dt.datetime, window: dt.timedelta
) -> dict[str, tuple[tuple[dt.datetime, int], ...]]:
    """Return the counts of restarts by supervisor: the newest one before the window, and later."""
    known = before if isinstance(before, dict) else {}
    found: dict[str, tuple[tuple[dt.datetime, int], ...]] = {}
    for supervisor, info in infos.items():
        count = info.get("restarts") if isinstance(info, dict) else None
        if not isinstance(count, int):
            continue
        counts = _counts(known.get(supervisor))
        if not counts or counts[-1][1] != count:
            counts = [*counts, (now, count)]
        begin = sum(at < now - window for at, _ in counts)
        found[supervisor] = tuple(counts[max(begin - 1, 0) :])
    return found


def _counts(plain: Json) -> list[tuple[dt.datetime, int]]:
    found = []
    for one in plain if isinstance(plain, list) else ():
        match one:
            case [str(at), int(count)]:
                found.append((dt.datetime.fromisoformat(at), count))
            case _:
                continue
    return found


def certificates_in(path: Path) -> Sequence[Certificate]:
    """Return the certificates of a file in PEM; none, with a line in the log, if it has none."""
    try:
        with path.open("rb") as file:
            found = x509.load_pem_x509_certificates(file.read(MOST_CERTIFICATE_BYTES))
    except (OSError, ValueError) as error:
        log.warning("certificates_not_read", file=str(path), error=str(error))
        return ()
    return [
        Certificate(
            name=f"{path.name}: {one.subject.rfc4514_string() or one.serial_number}",
            ends_at=one.not_valid_after_utc,
        )
        for one in found
    ]
