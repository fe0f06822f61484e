"""The commands of the guides that read rows and logged answers print what the guides show."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pandas as pd
import pytest

from narthex._base import Json
from narthex._drift import FeatureKind, summary_of
from narthex._sdk.commit_definitions import definitions
from narthex.client import Client
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.featuresets import feature, featureset
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.guides.pages import DOCS, blocks, commands, pages_with
from tests.guides.terminal import Terminal, terminal_of
from tests.server.conftest import TOKEN, House
from tests.server.data.test_training_sets import answered
from tests.server.data.test_value_diffs import deploy_filled, fill, fill_rows, house_in
from tests.server.driving import catch_up, serve, step, store_summaries
from tests.server.listening import listening
from tests.server.weighed_parcels import weighed

pytestmark = [
    pytest.mark.postgres,
    # A command's connections end with its process, which here is the test's.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.slow,
]

__owner__ = "shop@narthex.dev"

GUIDE: Final = DOCS / "guide"
CANDIDATE: Final = {"x-narthex-branch": "candidate"}
WEIGHTS: Final[Mapping[str, tuple[float] | None]] = {
    "p1": (1.5,),
    "p2": (0.5,),
    "p9": (2.0,),
    **{f"p{number}": (1.0,) for number in range(10, 408)},
}
"""The weight of parcels on `main`; 398 weigh the same on `candidate`."""

TRAINED: Final = 400
"""The rows of the training set."""


@source(Webhook("shop").endpoint("payments"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Payments:
    user: str = field(key=True)
    euros: float
    city: str
    at: dt.datetime = field(timestamp=True)


@featureset
class Buyer:
    user: str
    amount: float = feature(Payments.euros, default=0.0)
    city: str = feature(Payments.city, default="")


@pytest.fixture
def listened(tmp_path: Path, ledger_dsn: str) -> Iterator[House]:
    """A server behind a socket, whose histories are real."""
    (port,) = free_ports(1)
    with (
        house_in(tmp_path, ledger_dsn, server_url=f"http://127.0.0.1:{port}") as house,
        listening(make_app(house.services), port, has_tasks=False),
    ):
        yield house


@pytest.fixture
def terminal(listened: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty directory, whose commands call the server."""
    url = listened.services.settings.server_url
    return terminal_of(url, TOKEN, directory=tmp_path / "reader", monkeypatch=monkeypatch)


def commands_of(page: str) -> list[str]:
    """Return the commands of a page that are run here, as they are typed."""
    return [
        command.text
        for block in blocks(GUIDE / page, "sh rows")
        for command in commands(block.text)
    ]


def test_the_commands_on_comparing_show_what_differs(listened: House, terminal: Terminal) -> None:
    on_main = serve(listened, weighed(1000.0))
    fill(listened, on_main, "Parcels", dict.fromkeys(WEIGHTS, 1))
    fill_rows(listened, on_main, "Kilograms", WEIGHTS)
    assert listened.client.post("/api/v1/init", json={}, headers=CANDIDATE).is_success
    on_candidate = deploy_filled(listened, weighed(500.0, version=2), **CANDIDATE)
    catch_up(listened)
    step(listened.client, on_candidate, "promote")
    moved: Mapping[str, tuple[float] | None] = {"p1": (3.0,), "p2": (1.0,), "p9": None}
    fill_rows(listened, on_candidate, "Kilograms", {**WEIGHTS, **moved})
    Path("keys.jsonl").write_text('{"parcel": "p2"}\n')
    Path("rows.jsonl").write_text('{"Parcel.parcel": "p1"}\n')
    whole, sampled, of_keys, features, of_rows = commands_of("comparing.md")
    terminal.refused = {
        whole: "3 of 401 keys differ",
        of_keys: "parcel=p2: kilograms 0.5 -> 1.0",
        features: "Parcel.parcel=p1: Parcel.kilograms 1.5 -> 3.0",
        of_rows: '"Parcel.parcel": "p1"',
    }

    assert terminal.follows(GUIDE / "comparing.md", "sh rows") == 1

    found = json.loads(terminal.said[sampled])
    assert (found["share"], found["as_of"]) == (0.01, "2026-05-01T00:00:00.000000Z")
    assert 0 < found["keys"]["compared"] < 20
    assert "1 of 1 keys differ" in terminal.said[of_keys]
    assert "3 of 401 keys differ" in terminal.said[features]
    (asked,) = json.loads(terminal.said[of_rows])["examples"]
    assert (asked["column"], asked["first"], asked["second"]) == ("Parcel.kilograms", 1.5, 3.0)


AMOUNTS: Final = [float(number % 80) for number in range(TRAINED)]
MOVED: Final = AMOUNTS + [30.0 + number % 20 for number in range(500)]
CITIES: Final = ["Bern", "Chur", "Genf", "Lugano"] * 225


def store_hours(house: House) -> None:
    """Store counts of logged answers and of rows, as the scheduled tasks do."""
    recent = dt.datetime.now(tz=dt.UTC).replace(minute=0, second=0, microsecond=0)
    of_answers, of_rows = [], []
    for hour, amounts in {
        dt.datetime(2026, 5, 3, 10, tzinfo=dt.UTC): AMOUNTS,
        dt.datetime(2026, 6, 1, 10, tzinfo=dt.UTC): AMOUNTS,
        recent - dt.timedelta(hours=2): MOVED,
    }.items():
        for name, column, values, kind in (
            ("amount", "euros", amounts, FeatureKind.NUMBER),
            ("city", "city", CITIES, FeatureKind.CATEGORY),
        ):
            one: dict[str, Json] = {
                "branch": "main",
                "hour": hour.isoformat(),
                "summary": summary_of(values, kind).plain(),
            }
            of_answers.append({**one, "feature": f"Buyer.{name}"})
            of_rows.append({**one, "dataset": "Payments", "column": column})
    store_summaries(house, of_answers, of_rows)


def test_the_commands_on_drift_find_it(listened: House, terminal: Terminal) -> None:
    first = serve(listened, definitions([Payments], [Buyer]))
    rows = {f"u{n}": (AMOUNTS[n], CITIES[n]) for n in range(TRAINED)}
    fill_rows(listened, first, "Payments", rows)
    spine = pd.DataFrame({"Buyer.user": [*rows], "timestamp": pd.Timestamp("2026-04-01", tz="UTC")})
    url = listened.services.settings.server_url
    with answered(listened), closing(Client(url, TOKEN)) as client:
        client.training_set("fraud-1", spine, ["Buyer.amount", "Buyer.city"])
    store_hours(listened)
    every, trained, pin, later, columns, unpin = commands_of("drift.md")
    terminal.refused = {every: "critical", trained: "critical", columns: "critical"}

    assert terminal.follows(GUIDE / "drift.md", "sh rows") == 1

    found = {one["feature"]: one["severity"] for one in json.loads(terminal.said[trained])}
    assert found == {"Buyer.amount": "critical", "Buyer.city": None}
    assert terminal.said[pin] == (
        "window spring has 4 features and columns: Buyer.amount, Buyer.city, Payments.city, "
        "Payments.euros\n"
    )
    assert verdicts(terminal.said[later]) == {
        "Buyer.amount": "no drift",
        "Buyer.city": "no drift",
        "Payments.city": "no drift",
        "Payments.euros": "no drift",
    }
    assert verdicts(terminal.said[columns]) == {
        "Payments.city": "no drift",
        "Payments.euros": "critical",
    }
    assert terminal.said[unpin] == "deleted window spring\n"
    assert listened.ledger.drift.windows("main") == ()


def verdicts(table: str) -> dict[str, str]:
    """Return the verdict of each feature and column of a printed table."""
    lines = [re.split(" {2,}", line) for line in table.splitlines()[1:]]
    return {name: verdict for verdict, name, *_ in lines}


def test_every_page_with_such_commands_is_run() -> None:
    """`tests/server/data/test_row_inspection.py` runs that of the page on sources."""
    pages = [GUIDE / f"{name}.md" for name in ("comparing", "drift", "sources")]
    assert pages_with("sh rows") == pages
