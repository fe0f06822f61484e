"""Data files on a server: stored with the commit, signed, and read alike wherever code runs."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pytest
import sqlalchemy as sa

from narthex._ir.assets import PipelineJobSpec
from narthex._ir.code import CarriedFile
from narthex._ir.entities import CodeExtractor, Definitions
from narthex._ir.facts import Fact, RowId, Version
from narthex._runtime.steps import StatelessPlan, StepContext
from narthex._runtime.workers import WorkerPool
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex_ledger import Ledger, NotSigned, Verifier
from narthex_reference.inprocess import MockClient
from tests.server.conftest import House
from tests.server.driving import catch_up, serve
from tests.server.shop import payload

pytestmark = pytest.mark.postgres

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000
COLOURS = "red=1.5\ngreen=2.5\n"
OTHERS = "red=7.5\nblue=3.5\n"
TEXT = """
from datetime import datetime

import pandas as pd

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.featuresets import extractor, featureset
from narthex.lib import data_file, inputs, outputs

__owner__ = "a@narthex.dev"

PRICES = data_file("prices.txt")

def prices():
    return dict(line.split("=") for line in PRICES.read_text().splitlines())

def price_of(colours):
    return colours.map(prices()).astype("Float64").fillna(0.0)

@source(Webhook(name="shop").endpoint("orders"), disorder="1d", cdc="append")
@dataset(version=VERSION)
class Orders:
    uid: int
    colour: str
    at: datetime

@dataset(version=VERSION, index=True)
class Priced:
    uid: int = field(key=True)
    colour: str
    price: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def priced(cls, orders):
        priced = orders.assign("price", float, lambda df: price_of(df["colour"]))
        return priced.groupby("uid").latest()

@dataset(version=VERSION)
class Sold:
    uid: int
    colour: str
    price: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def sold(cls, orders):
        return orders.assign("price", float, lambda df: price_of(df["colour"]))

@featureset
class Basket:
    colour: str
    price: float

    @extractor(version=VERSION)
    @inputs("colour")
    @outputs("price")
    def price_of_colour(cls, ts, colour):
        return price_of(colour)
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., AuthorFile]:
    """Return a function that writes the project with a data file, and loads it."""

    def written(content: str = COLOURS, *, version: int = 1) -> AuthorFile:
        directory = tmp_path / "project"
        directory.mkdir(exist_ok=True)
        (directory / "prices.txt").write_text(content, encoding="utf-8")
        file = directory / "priced_colours.py"
        text = TEXT.replace("version=VERSION", f"version={version}")
        file.write_text(text, encoding="utf-8")
        found = load_file(file)
        assert found.check() == ()
        return found

    return written


def asked(house: House, colours: list[str]) -> list[float]:
    call = {
        "inputs": ["Basket.colour"],
        "outputs": ["Basket.price"],
        "data": {"Basket.colour": colours},
    }
    answer = house.client.post("/api/v1/query", json=call)
    assert answer.status_code == 200, answer.text
    found: list[float] = answer.json()["Basket.price"]
    return found


def in_a_job(ledger: Ledger, colours: list[str]) -> list[object]:
    """Run the steps of the job of `Sold`, as engines receive it, in a sandboxed worker."""
    (spec,) = (
        job.asset.spec
        for job in ledger.jobs.all()
        if isinstance(job.asset.spec, PipelineJobSpec) and job.asset.spec.dataset == "Sold"
    )
    facts = [
        Fact(
            row_id=RowId(bytes([at])),
            version=Version(b"1"),
            event_time=NOON_US,
            key=(),
            values=(at, colour),
        )
        for at, colour in enumerate(colours)
    ]
    with WorkerPool(1) as pool:
        assert pool.warm().is_complete
        plan = StatelessPlan.of(spec, StepContext(calls=pool, title="`Sold`"))
        made = plan.run(facts, lookup=_no_lookup)
        return [fact.values[2] for fact in made]  # noqa: PD011 (a fact, no frame)


def _no_lookup(*_: object) -> list[None]:
    raise AssertionError("the pipeline has no join")


def in_a_unit_test(project: AuthorFile, colours: list[str]) -> tuple[list[object], list[object]]:
    """Return the prices of features, and those of the pipeline's rows."""
    client = MockClient()
    client.clock.set(NOON)
    client.commit("prices", datasets=project.datasets, featuresets=project.featuresets)
    rows = pd.DataFrame({"uid": range(len(colours)), "colour": colours, "at": NOON})
    client.log("shop", "orders", rows)
    basket = pd.DataFrame({"Basket.colour": colours})
    features = client.query(["Basket.colour"], ["Basket.price"], basket)
    found, _ = client.lookup("Priced", keys=pd.DataFrame({"uid": range(len(colours))}))
    return features["Basket.price"].tolist(), found["price"].tolist()


@pytest.fixture
def engines(house: House) -> Iterator[Ledger]:
    """The ledger as a supervisor opens it."""
    settings = house.services.settings
    verifier = Verifier.load(settings.verifying_key)
    ledger = Ledger(settings.ledger_dsn, verifier=verifier)
    yield ledger
    ledger.close()


@pytest.mark.parametrize(
    ("content", "wanted"), [(COLOURS, [1.5, 0.0, 2.5]), (OTHERS, [7.5, 3.5, 0.0])]
)
def test_an_author_gets_one_answer_everywhere(
    house: House,
    engines: Ledger,
    project: Callable[..., AuthorFile],
    content: str,
    wanted: list[float],
) -> None:
    colours = ["red", "blue", "green"]
    author = project(content)
    serve(house, author.definitions())

    assert asked(house, colours) == wanted
    assert in_a_job(engines, colours) == wanted
    assert in_a_unit_test(author, colours) == (wanted, wanted)


def _features_of(project: AuthorFile) -> Definitions:
    return attrs.evolve(project.definitions(), datasets=())


def test_a_changed_file_is_planned_by_name_and_a_rollback_restores_it(
    house: House, project: Callable[..., AuthorFile]
) -> None:
    serve(house, _features_of(project()))
    changed = _features_of(project(OTHERS, version=2))
    same_version = _features_of(project(OTHERS))

    refused = house.client.post("/api/v1/commit", content=payload(same_version))
    planned = house.client.post(
        "/api/v1/commit", params={"preview": "true"}, content=payload(changed)
    )
    serve(house, changed)
    after = asked(house, ["red"])
    rolled = house.client.post("/api/v1/rollback", json={})
    catch_up(house)

    assert "data file prices.txt" in refused.text
    assert refused.status_code == 400
    (feature,) = (
        why for why in planned.json()["report"]["why"] if why["entity"] == "feature `Basket.price`"
    )
    assert feature["path"].endswith("data file prices.txt")
    assert feature["old"].startswith("`sha256:")
    assert after == [7.5]
    assert rolled.status_code == 200, rolled.text
    assert asked(house, ["red"]) == [1.5]


def forged(definitions: Definitions, **changes: Any) -> Definitions:
    (featureset,) = definitions.featuresets
    (extractor,) = featureset.extractors
    assert isinstance(extractor, CodeExtractor)
    (file,) = extractor.code.files
    files = (attrs.evolve(file, **changes),) if changes else ()
    changed = attrs.evolve(extractor, code=attrs.evolve(extractor.code, files=files))
    return attrs.evolve(definitions, featuresets=(attrs.evolve(featureset, extractors=(changed,)),))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"content": b"red=9"}, "the data file `prices.txt` of `price_of_colour` does not match"),
        ({"sha256": bytes(32)}, "the data file `prices.txt` of `price_of_colour` does not match"),
        ({"name": "other.txt"}, "asks for other data files than it has"),
        ({}, "asks for other data files than it has"),
    ],
)
def test_a_payload_that_disagrees_with_itself_is_refused(
    house: House,
    project: Callable[..., AuthorFile],
    changes: Mapping[str, object],
    why: str,
) -> None:
    body = payload(forged(project().definitions(), **changes))

    answer = house.client.post("/api/v1/commit", content=body)

    assert answer.status_code == 400
    assert why in answer.text
    assert "NX704" in answer.text


def test_a_payload_with_more_bytes_than_allowed_is_refused(
    house: House, project: Callable[..., AuthorFile]
) -> None:
    content = "x" * (3 << 20)  # three functions use it

    body = payload(project("").definitions())
    assert house.client.post("/api/v1/commit", content=body).status_code == 202
    large = _with_content(project("").definitions(), content.encode())
    answer = house.client.post("/api/v1/commit", content=payload(large))

    assert answer.status_code == 400
    assert "NX705" in answer.text


def _with_content(value: Any, content: bytes) -> Any:
    """Return a record whose data files have another content and its hash, as a client may send."""
    if isinstance(value, CarriedFile):
        return attrs.evolve(value, content=content, sha256=hashlib.sha256(content).digest())
    if isinstance(value, tuple):
        return tuple(_with_content(item, content) for item in value)
    if not attrs.has(type(value)):
        return value
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return attrs.evolve(value, **{n: _with_content(one, content) for n, one in fields.items()})


def test_engines_refuse_a_job_whose_file_was_changed_in_the_database(
    house: House, engines: Ledger, project: Callable[..., AuthorFile]
) -> None:
    serve(house, project().definitions())
    before = engines.jobs.all()
    old, new = (base64.b64encode(text.encode()).decode() for text in (COLOURS, OTHERS))
    database = sa.create_engine(house.services.settings.ledger_dsn)

    with database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE asset DISABLE TRIGGER USER"))
        changed = connection.execute(
            sa.text("UPDATE asset SET spec = replace(spec::text, :old, :new)::json"),
            {"old": old, "new": new},
        )
        assert changed.rowcount > 0
    database.dispose()

    assert before
    with pytest.raises(NotSigned, match="asset nx_tests000_"):
        engines.jobs.all()


def test_answers_of_the_api_have_no_content_of_files(
    house: House, project: Callable[..., AuthorFile]
) -> None:
    commit_id = serve(house, project("secretive=1.5\n").definitions())
    encoded = base64.b64encode(b"secretive=1.5\n").decode()
    paths = (
        *(f"commits/{commit_id}", "commits", "branches", "datasets", "datasets/Sold", "lineage"),
        *("featuresets", "featuresets/Basket", "features/Basket.price", "health"),
    )

    answers = {path: house.client.get(f"/api/v1/{path}") for path in paths}

    assert answers[f"commits/{commit_id}"].status_code == 200
    shown = json.dumps({path: answer.text for path, answer in answers.items()})
    assert "secretive" not in shown
    assert encoded not in shown
