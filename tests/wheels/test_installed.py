"""A person's path from `pip install` to an answer, without a checkout."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wheels.conftest import Environment, install

pytestmark = pytest.mark.wheels

FEATURES = """
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "shop@example.org"

webhook = Webhook(name="shop")


@source(webhook.endpoint("payments"), disorder="1h", cdc="append")
@dataset
class Payments:
    user_id: int
    amount: float
    paid_at: datetime = field(timestamp=True)


@dataset(index=True)
class Spend:
    user_id: int = field(key=True)
    spent_1d: float
    payments_1d: int
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payments)
    def by_user(cls, payments):
        return (
            payments.filter(col("amount") > 0.0)
            .groupby("user_id")
            .aggregate(
                spent_1d=Sum(of="amount", window=Continuous("1d")),
                payments_1d=Count(window=Continuous("1d")),
            )
        )


@featureset
class Shopper:
    user_id: int
    spent_1d: float = feature(Spend.spent_1d, default=0.0)
    payments_1d: int = feature(Spend.payments_1d, default=0)
"""

TESTS = """
from datetime import UTC, datetime

import pandas as pd

from features import Payments, Shopper, Spend


def test_payments_are_added(mock_client):
    mock_client.commit(message="spend", datasets=[Payments, Spend], featuresets=[Shopper])
    rows = [{"user_id": 7, "amount": amount, "paid_at": datetime.now(UTC)} for amount in (3.0, 4.5)]
    mock_client.log("shop", "payments", pd.DataFrame(rows))
    given = pd.DataFrame({"Shopper.user_id": [7]})
    answers = mock_client.query(["Shopper.user_id"], ["Shopper"], given)
    assert answers["Shopper.spent_1d"].tolist() == [7.5]
"""


def write_project(directory: Path) -> None:
    (directory / "features.py").write_text(FEATURES)
    (directory / "test_features.py").write_text(TESTS)


def test_an_author_needs_one_light_wheel(tmp_path: Path, wheels: Path) -> None:
    author = install(tmp_path, wheels, ["narthex", "pytest"])
    write_project(tmp_path)

    sound = author.run("narthex", "check", "features.py")
    broken = author.run("narthex", "up", code=2)
    listed = author.run("narthex", "--help").stdout
    unit_tests = author.run("python", "-m", "pytest", "-q", "test_features.py")

    assert "Traceback" not in sound.stderr
    assert "pip install narthex-platform" in " ".join(broken.stderr.split())
    assert "  check" in listed
    assert "  supervisor" not in listed
    assert "1 passed" in unit_tests.stdout
    packages = {path.name for path in author.bin.parent.glob("lib/python*/site-packages/*")}
    assert not packages & {"pyspark", "airflow", "sqlalchemy", "confluent_kafka", "fastapi"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Iterator[Environment]:
    """The whole platform in an environment of its own; its services end with the module."""
    environment = install(tmp_path_factory.mktemp("person"), wheels, ["narthex-platform", "pytest"])
    yield environment
    environment.run("narthex", "down", "--wipe", code=None)


@pytest.mark.stack
def test_a_platform_runs_from_wheels(installed: Environment) -> None:
    write_project(installed.directory)
    installed.run("narthex", "check", "features.py")
    installed.run("python", "-m", "pytest", "-q", "test_features.py")
    installed.run("narthex", "up", within_s=400.0)
    installed.run("narthex", "commit", "features.py", "--message", "spend", within_s=300.0)
    now = dt.datetime.now(dt.UTC).isoformat()
    row = json.dumps({"user_id": 7, "amount": 12.5, "paid_at": now})
    installed.run("narthex", "log", "shop", "payments", text=f"{row}\n")
    answer = installed.run("narthex", "query", "Shopper", "--with", "Shopper.user_id=7")
    print(answer.stdout)
    installed.run("narthex", "down", "--wipe")
