"""A package of a project's lock and a data file: imported by Airflow, live, online and offline."""

import datetime as dt
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from narthex._runtime.environments import environments_directory
from narthex.client import Client
from tests.acceptance.platform import STREAM_S, Platform, wait_until
from tests.core.tiny_wheels import tiny_wheel

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
RATE = "def rate(zones):\n    return zones.astype('Float64') * 2.5\n"
ARCHIVE = "tariffs.csv"
PROJECT = """
from datetime import datetime

import tiny_tariffs

from narthex.connectors import CSV, Files, Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.featuresets import extractor, featureset
from narthex.lib import data_file, inputs, outputs

__owner__ = "post@example.org"

discounts = data_file("discounts.txt")

archive = Files(name="post").path("tariffs.csv", format=CSV())

@source(archive, disorder="1d", cdc="append", bounded=True, idleness="1h")
@source(Webhook(name="post").endpoint("letters"), disorder="1d", cdc="append")
@dataset
class Letters:
    letter: int
    zone: int
    sent_at: datetime

@dataset(index=True)
class Postage:
    letter: int = field(key=True)
    cents: float
    sent_at: datetime

    @pipeline
    @inputs(Letters)
    def of_letters(cls, letters):
        priced = letters.assign(
            "cents", float, lambda df: tiny_tariffs.rate(df["zone"]) - float(discounts.read_text())
        )
        return priced.drop("zone").groupby("letter").latest()

@featureset
class Stamp:
    letter: int
    zone: int
    cents: float
    asked: float

    @extractor(deps=[Postage])
    @inputs("letter")
    @outputs("cents")
    def stored(cls, ts, letter):
        found, _ = Postage.lookup(ts, letter=letter)
        return found["cents"].fillna(0.0)

    @extractor
    @inputs("zone")
    @outputs("asked")
    def computed(cls, ts, zone):
        return tiny_tariffs.rate(zone) - float(discounts.read_text())
"""


@pytest.fixture
def project(platform: Platform, package_index: Path, definitions_root: Path) -> str:
    """A folder of the root of definitions, with a lock; and an archive of two letters."""
    wheel = tiny_wheel(package_index, "tiny-tariffs", "1.0", {"tiny_tariffs/__init__.py": RATE})
    (platform.settings.files_root / ARCHIVE).write_text(
        "letter,zone,sent_at\n1,1,2026-05-01T08:00:00Z\n2,4,2026-05-01T09:00:00Z\n"
    )
    files = {
        "narthex.toml": 'requirements = "requirements.lock"\n',
        "requirements.lock": wheel.line,
        "discounts.txt": "0.5",
        "post.py": PROJECT,
    }
    (definitions_root / "post").mkdir()
    for name, text in files.items():
        (definitions_root / "post" / name).write_text(text, encoding="utf-8")
    return "post"


def test_author_code_has_its_package_and_its_file_wherever_it_runs(
    platform: Platform, project: str
) -> None:
    opened = Client(platform.settings.server_url, platform.settings.token, branch="post")
    with closing(opened) as client:
        client.init_branch("post")
        run_id = platform.commit_by_form(project=project, file="post.py", branch="post")
        assert platform.run_of(run_id)["state"] == "success", platform.states_of(run_id)
        sent = [{"letter": 3, "zone": 6, "sent_at": "2026-05-01T10:00:00Z"}]
        client.log("post", "letters", pd.DataFrame(sent))
        asked = pd.DataFrame({"Stamp.letter": [1, 2, 3], "Stamp.zone": [1, 4, 6]})
        features = ["Stamp.cents", "Stamp.asked"]

        def answers() -> list[list[float]]:
            found = client.query([*asked.columns], features, asked, as_of=NOON)
            return [found[name].tolist() for name in features]

        wanted = [[2.0, 9.5, 14.5]] * 2
        wait_until(lambda: answers() == wanted, within_s=STREAM_S, so_far=answers)
        spine = asked.assign(timestamp=NOON)
        past = client.query_offline([*asked.columns], features, "timestamp", spine)

    assert [past[name].tolist() for name in features] == wanted
    committed = platform.client.read(f"runs/{run_id}/commit")["commit_id"]
    plan: Any = platform.client.read(f"commits/{committed}/plan")["plan"]
    assert any(ARCHIVE in str(one) for one in plan["backfill"])
    environments = environments_directory(platform.settings.home)
    assert len([*environments.iterdir()]) == 1
