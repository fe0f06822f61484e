"""A console of the shop in which so much has happened that each page has something to show."""

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs

from narthex._ir.entities import Definitions
from narthex_ledger import (
    Desired,
    DriftView,
    ErasureRequest,
    JobView,
    Phase,
    ReferenceKind,
    ShardReport,
)
from tests.server.commits.test_plan import raised
from tests.server.commits.test_rollback import without_featuresets
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.console.browsing import console_of
from tests.server.driving import SLOTS, create_all, serve, step
from tests.server.sampled_minutes import Minutes
from tests.server.shop import payload, shop_definitions

ON_DEV: Final = {"x-narthex-branch": "dev"}
ERASURE: Final = UUID(int=1)
REPORTS: Final[dict[str, tuple[Phase, dict[str, Any]]]] = {
    "Orders": (Phase.CAUGHT_UP, {"behind": 0}),
    "Spend": (Phase.RUNNING, {"behind": 56789, "late": 3}),
    "Users": (Phase.FAILED, {"error": "the column `country` is not in the row"}),
}


@attrs.frozen(kw_only=True)
class OrdinaryConsole:
    """The console of a server.

    Attributes:
        url: The address of the server.
        waiting: A commit of `main` that waits for a person.
        ongoing: A commit of `dev` whose assets are not created yet.
        job: The job of which `jobs/{job}` is the page.
    """

    url: str
    waiting: str
    ongoing: str
    job: int

    def names(self, text: str) -> str:
        """Replace the names of attributes in braces by their values."""
        return text.format(**attrs.asdict(self), erasure=ERASURE)

    def address(self, path: str) -> str:
        """Return the address of a page."""
        return f"{self.url}/console/{self.names(path)}"


@contextmanager
def ordinary_console(home: Path, dsn: str) -> Iterator[OrdinaryConsole]:
    """Serve the console."""
    settings = settings_at(home, dsn=dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, shop_definitions())
        _sample(house)
        _post(house, "init", {"clone_from": "main"}, **ON_DEV)
        _post(house, "branch/protect", {"protected": True})
        waiting = _waiting(house)
        ongoing = _accepted(house, without_featuresets(), "without features", **ON_DEV)
        _report(house)
        audit = {"dataset": "Orders", "from_us": None, "to_us": 0, "success": False}
        _post(house, "audits", audit | {"result": {"rows": 1200, "failed": 1}})
        house.ledger.drift.record([_drifted()])
        house.ledger.erasures.request(_erasure(house))
        _connect(house)
        jobs = house.client.get("/api/v1/jobs").json()["jobs"]
        [job] = [one["asset_id"] for one in jobs if one["label"] == "Users ← webhook:shop/users"]
        with console_of(house) as url:
            yield OrdinaryConsole(url=url, waiting=waiting, ongoing=ongoing, job=job)


def _sample(house: House) -> None:
    """Sample the metrics of some minutes, with a gap."""
    minutes = Minutes(house)
    with ExitStack() as closing:
        for minute, rows in ((1, 100), (2, 130), (3, 140), (5, 150)):
            minutes.sample(minute, rows)
            closing.callback(minutes.opened[-1].close)


def _post(house: House, path: str, body: Any, **headers: str) -> None:
    answer = house.client.post(f"/api/v1/{path}", json=body, headers=headers)
    assert answer.is_success, answer.text


def _accepted(house: House, wanted: Definitions, message: str, **headers: str) -> str:
    accepted = house.client.post(
        "/api/v1/commit",
        content=payload(wanted, message=message),
        headers={"x-narthex-actor": "ada"} | headers,
    )
    return str(accepted.json()["commit_id"])


def _waiting(house: House) -> str:
    """Return a commit of `main`, of which all is done that comes before the approval."""
    waiting = _accepted(house, raised("Spend"), "count orders by hour")
    create_all(house.client, waiting)
    for name in ("ready", "commit"):
        step(house.client, waiting, name)
    return waiting


def _report(house: House) -> None:
    """Report the jobs of each dataset in another phase."""
    leases = house.ledger.slots.claim("tests", range(SLOTS))
    epochs = {one.slot: one.epoch for one in leases}
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[shard.slot],
            shard=shard.shard,
            phase=_reported(job)[0],
            lag_ms=1234,
            progress=_reported(job)[1],
        )
        for job in house.ledger.jobs.all()
        for shard in job.shards
        if job.desired is Desired.RUNNING
    ]
    assert house.ledger.jobs.report(reports) == ()
    # Pages show the holders of slots: these leases would end while the test looks at them.
    house.ledger.slots.release("tests", leases)


def _reported(job: JobView) -> tuple[Phase, dict[str, Any]]:
    return REPORTS[job.asset.spec.dataset]


def _drifted() -> DriftView:
    noon = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    return DriftView(
        branch="main",
        feature="Buyer.spent",
        reference_kind=ReferenceKind.WINDOW,
        reference="the week before",
        from_at=noon,
        to_at=noon + dt.timedelta(hours=1),
        rows=1200,
        reference_rows=5000,
        is_compared=True,
        severity="critical",
        metrics={"psi": {"value": 0.3114, "severity": "critical"}},
    )


def _erasure(house: House) -> ErasureRequest:
    return ErasureRequest(
        erasure_id=ERASURE,
        tenant=house.services.tenant,
        branch="main",
        dataset="Users",
        fields=("user",),
        actor="ada",
        request_sha256=bytes(32),
        digests=(bytes(32),),
        sealed={"sealed": "unreadable"},
        sources=(),
    )


def _connect(house: House) -> None:
    stored = {
        "kind": "Postgres",
        "arguments": {"host": "db.shop.example", "db_name": "shop"},
        "secrets": {"username": "shop_user", "password": "shop_password"},
    }
    answer = house.client.put("/api/v1/connections/shop", json=stored)
    assert answer.is_success, answer.text
