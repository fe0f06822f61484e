"""Packages of a project's lock on a server: installed once, and imported alike everywhere."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from narthex._ir.assets import PipelineJobSpec
from narthex._ir.entities import Definitions
from narthex._ir.facts import Fact, RowId, Version
from narthex._runtime.environments import environments_directory
from narthex._runtime.steps import StatelessPlan, StepContext
from narthex._runtime.workers import WorkerPool
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex_ledger import Ledger
from narthex_reference.inprocess import MockClient
from narthex_server.deploy.environment_builds import KEPT
from narthex_spark_apps.offline.offline_request import OfflineQuery
from narthex_spark_apps.offline.queries import answer_query
from tests.core.tiny_wheels import TinyWheel, forget, tiny_wheel
from tests.server.conftest import NOBODY, Adapters, House, house_at, settings_at
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.shop import payload

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000
RETAINED = timedelta(days=8)
"""After this time, readers cannot be moved back to a commit at once any more."""

TEXT = """
from datetime import datetime

import tiny_prices

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.featuresets import extractor, featureset
from narthex.lib import inputs, outputs

__owner__ = "a@narthex.dev"

@source(Webhook(name="shop").endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    uid: int
    at: datetime

@dataset(version=VERSION)
class Sold:
    uid: int
    price: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def sold(cls, orders):
        return orders.assign("price", float, lambda df: tiny_prices.price(df["uid"]))

@dataset(version=VERSION, index=True)
class Priced:
    uid: int = field(key=True)
    price: float
    at: datetime

    @pipeline
    @inputs(Sold)
    def priced(cls, sold):
        return sold.groupby("uid").latest()

@featureset
class Basket:
    uid: int
    price: float

    @extractor(version=VERSION)
    @inputs("uid")
    @outputs("price")
    def price_of(cls, ts, uid):
        return tiny_prices.price(uid)
"""


@attrs.frozen
class Project:
    """A project whose lock has one package, of which wheels are in a directory."""

    root: Path

    @property
    def wheels(self) -> Path:
        return self.root / "wheels"

    def loaded(self, rate: float, *, version: int = 1) -> AuthorFile:
        """Lock and install a version of the package, and load the definitions."""
        directory, site = self.root / "project", self.root / "site-packages"
        directory.mkdir(exist_ok=True)
        site.mkdir(exist_ok=True)
        wheel = self.wheel(rate, version)
        wheel.install(site)
        forget("tiny_prices", "locked_prices")
        (directory / "narthex.toml").write_text('requirements = "requirements.lock"\n', "utf-8")
        (directory / "requirements.lock").write_text(f"# a lock\n{wheel.line}", "utf-8")
        file = directory / "locked_prices.py"
        file.write_text(TEXT.replace("version=VERSION", f"version={version}"), "utf-8")
        found = load_file(file)
        assert found.check() == ()
        return found

    def wheel(self, rate: float, version: int = 1) -> TinyWheel:
        text = f"def price(uid):\n    return uid.astype('Float64') * {rate}\n"
        files = {"tiny_prices/__init__.py": text}
        return tiny_wheel(self.wheels, "tiny-prices", f"{version}.0", files)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path / "home"))
    yield Project(tmp_path)
    forget("tiny_prices", "locked_prices")


@pytest.fixture
def house(project: Project, ledger_dsn: str, adapters: Adapters, tmp_path: Path) -> Iterator[House]:
    """A server that installs packages from a directory of wheels."""
    (tmp_path / "home").mkdir(mode=0o700)
    settings = settings_at(tmp_path / "home", dsn=ledger_dsn, kafka=NOBODY)
    with house_at(
        attrs.evolve(settings, package_index=str(project.wheels)), adapters=adapters
    ) as made:
        yield made


def asked(house: House, uids: list[int]) -> list[float]:
    call = {"inputs": ["Basket.uid"], "outputs": ["Basket.price"], "data": {"Basket.uid": uids}}
    answer = house.client.post("/api/v1/query", json=call)
    assert answer.status_code == 200, answer.text
    found: list[float] = answer.json()["Basket.price"]
    return found


def in_a_job(house: House, uids: list[int], pool: WorkerPool) -> list[object]:
    """Run the steps of the job of `Sold` in a sandboxed worker."""
    (spec,) = (
        job.asset.spec
        for job in house.ledger.jobs.all()
        if isinstance(job.asset.spec, PipelineJobSpec) and job.asset.spec.dataset == "Sold"
    )
    plan = StatelessPlan.of(spec, StepContext(calls=pool, title="`Sold`"))
    facts = [
        Fact(
            row_id=RowId(bytes([at])),
            version=Version(b"1"),
            event_time=NOON_US,
            key=(),
            values=(uid,),
        )
        for at, uid in enumerate(uids)
    ]
    return [fact.values[1] for fact in plan.run(facts, lookup=_no_lookup)]  # noqa: PD011 (a fact)


def _no_lookup(*_: object) -> list[None]:
    raise AssertionError("the pipeline has no join")


def _no_spark() -> object:
    raise AssertionError("the query reads no history")


def offline(
    definitions: Definitions, uids: list[int], pool: WorkerPool, place: Path
) -> list[object]:
    spine = {"Basket.uid": uids, "as_of": ["2024-03-01T12:00:00Z"] * len(uids)}
    pq.write_table(pa.table(spine), place / "spine.parquet")
    query = OfflineQuery(
        definitions=definitions,
        inputs=("Basket.uid",),
        outputs=("Basket.price",),
        timestamp_column="as_of",
        offsets_column=None,
        at="",
        spine=place / "spine.parquet",
        output=place / "answers.parquet",
        datasets={},
    )
    answer_query(_no_spark, query, workers=pool, progress=lambda _: None)
    return list(pq.read_table(query.output).column("Basket.price").to_pylist())


def in_a_unit_test(author: AuthorFile, uids: list[int]) -> tuple[list[object], list[object]]:
    client = MockClient()
    client.clock.set(NOON)
    client.commit("prices", datasets=author.datasets, featuresets=author.featuresets)
    client.log("shop", "orders", pd.DataFrame({"uid": uids, "at": NOON}))
    basket = pd.DataFrame({"Basket.uid": uids})
    features = client.query(["Basket.uid"], ["Basket.price"], basket)
    found, _ = client.lookup("Priced", keys=pd.DataFrame({"uid": uids}))
    return features["Basket.price"].tolist(), found["price"].tolist()


def test_an_author_gets_one_answer_everywhere(
    house: House, project: Project, tmp_path: Path
) -> None:
    author, uids, wanted = project.loaded(1.5), [1, 2, 4], [1.5, 3.0, 6.0]
    serve(house, author.definitions())

    assert asked(house, uids) == wanted
    with WorkerPool(1) as pool:
        assert in_a_job(house, uids, pool) == wanted
        assert offline(author.definitions(), uids, pool, tmp_path) == wanted
    assert in_a_unit_test(author, uids) == (wanted, wanted)
    (environment,) = environments_directory(house.services.settings.home).iterdir()
    assert len(environment.name) == 64


def test_another_version_is_planned_by_name_and_a_rollback_restores_the_first(
    house: House, project: Project
) -> None:
    first = attrs.evolve(project.loaded(1.5).definitions(), datasets=())
    serve(house, first)
    changed = attrs.evolve(project.loaded(2.5, version=2).definitions(), datasets=())

    planned = house.client.post(
        "/api/v1/commit", params={"preview": "true"}, content=payload(changed)
    )
    serve(house, changed)
    after = asked(house, [2])
    rolled = house.client.post("/api/v1/rollback", json={})
    catch_up(house)

    (feature,) = (
        why for why in planned.json()["report"]["why"] if why["entity"] == "feature `Basket.price`"
    )
    assert feature["path"].endswith("package tiny-prices")
    assert (feature["old"], feature["new"]) == ("`1.0`", "`2.0`")
    assert after == [5.0]
    assert rolled.status_code == 200, rolled.text
    assert asked(house, [2]) == [3.0]


def test_a_commit_whose_packages_cannot_be_installed_is_rejected(
    house: House, project: Project
) -> None:
    definitions = project.loaded(1.5).definitions()
    project.wheel(9.0)  # the same version, with other bytes
    commit_id = accept(house.client, definitions)

    answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/plan")
    while answer.status_code == 409:
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/plan")

    assert answer.status_code == 410
    found = shown(house.client, commit_id)
    assert found["state"] == "REJECTED"
    assert "the packages of the lock cannot be installed" in str(found["error"])
    assert "tiny-prices" in str(found["error"])
    later = serve(
        house, attrs.evolve(definitions, featuresets=(), datasets=definitions.datasets[:1])
    )
    assert shown(house.client, later)["state"] == "FINALIZED"


def test_a_lock_is_refused_where_nothing_can_be_installed(
    ledger_dsn: str, adapters: Adapters, project: Project, tmp_path: Path
) -> None:
    body = payload(project.loaded(1.5).definitions())
    settings = settings_at(tmp_path / "home", dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=adapters) as house:
        answer = house.client.post("/api/v1/commit", content=body, params={"preview": "true"})

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert (error["code"], error["line"]) == ("NX706", 2)
    assert error["file"].endswith("requirements.lock")
    assert "NARTHEX_PACKAGE_INDEX" in error["hint"]


def test_an_environment_is_removed_once_no_commit_in_use_names_it(
    house: House, project: Project
) -> None:
    first = attrs.evolve(project.loaded(1.5).definitions(), datasets=())
    first_id = serve(house, first)
    (old,) = environments_of(house)
    serve(house, attrs.evolve(project.loaded(2.5, version=2).definitions(), datasets=()))
    (new,) = environments_of(house) - {old}
    builds, ledger = house.services.executor.environments, house.ledger
    place = environments_directory(house.services.settings.home) / old
    os.utime(place, (100.0, 100.0))
    builds.require(first)  # the step before planning is a use
    after_days = datetime.now(UTC) + KEPT + timedelta(hours=1)

    # Readers can be moved back to the first commit.
    assert builds.remove_unused(ledger, now=after_days) == ()
    later = Ledger(house.services.settings.ledger_dsn, clock_shift=RETAINED)
    assert first_id in map(str, ledger.manifests.pinned())
    later.gc.expire_pins()
    later.close()
    assert first_id not in map(str, ledger.manifests.pinned())

    # A worker has used it within the last days.
    assert builds.remove_unused(ledger, now=after_days - timedelta(hours=2)) == ()
    assert builds.remove_unused(ledger, now=after_days) == (old,)
    assert environments_of(house) == {new}
    assert asked(house, [2]) == [5.0]

    # It is built again for a commit that needs it.
    project.wheel(1.5)
    seq = shown(house.client, first_id)["seq"]
    rolled = house.client.post("/api/v1/rollback", json={"to": seq})
    assert rolled.json()["anew"], rolled.text
    again = rolled.json()["commit_id"]
    create_all(house.client, again)
    for name in ("ready", "commit", "backfill", "backfilled", "promote"):
        step(house.client, again, name)
    assert environments_of(house) == {old, new}
    assert asked(house, [2]) == [3.0]


def environments_of(house: House) -> set[str]:
    return {one.name for one in environments_directory(house.services.settings.home).iterdir()}
