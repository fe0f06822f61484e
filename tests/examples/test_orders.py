"""The example of orders answers as an independent computation does."""

from pathlib import Path

import pandas as pd
import pytest

from examples.orders import data, features
from examples.orders.questions import (
    CUSTOMER,
    FEATURES,
    MAILINGS,
    answers_from_tables,
    labelled_spine,
)
from narthex.cli.projects.author_files import load_file
from narthex.errors import render_report
from narthex.testing import log
from narthex_reference.inprocess import MockClient


def fill() -> None:
    """Put the archive into the datasets, as the backfill of a commit does on a platform."""
    orders = data.all_orders()
    log(features.Customers, data.customers())
    log(features.Orders, orders[orders["ordered_at"] < data.LIVE_FROM])


@pytest.fixture
def client() -> MockClient:
    client = MockClient()
    from examples.orders.demo import DATASETS  # noqa: PLC0415 - it loads scikit-learn

    client.commit("customers", datasets=[*DATASETS], featuresets=[features.Shopper])
    return client


def test_the_definitions_are_sound() -> None:
    found = load_file(Path(features.__file__))

    assert render_report(found.check()) == ""
    assert (len(found.datasets), len(found.featuresets)) == (5, 1)


def test_the_archive_and_the_live_orders_are_all_orders(tmp_path: Path) -> None:
    data.write_archive(tmp_path)
    live = data.live_orders()

    archived = pd.read_csv(tmp_path / "orders" / "orders.csv", parse_dates=["ordered_at"])
    both = pd.concat([archived, live], ignore_index=True)
    pd.testing.assert_frame_equal(both, data.all_orders(), check_dtype=False)
    assert (len(archived), len(live)) == (5728, 1191)
    assert len(pd.read_csv(tmp_path / "orders" / "customers.csv")) == 2357


def test_customers_of_a_spine_are_as_computed_from_the_tables(client: MockClient) -> None:
    fill()
    client.log("music", "orders", data.live_orders())
    spine = labelled_spine().sample(150, random_state=1).reset_index(drop=True)

    training = client.training_set("some", spine, list(FEATURES), timestamp_column="timestamp")

    expected = answers_from_tables(data.all_orders(), data.customers(), spine)
    pd.testing.assert_frame_equal(
        training.frame[list(FEATURES)], expected[list(FEATURES)], check_dtype=False, rtol=1e-12
    )
    assert training.frame["orders_soon"].sum() > 0


def test_answers_about_a_mailing_ignore_later_orders(client: MockClient) -> None:
    fill()
    spine = labelled_spine([MAILINGS[1]]).head(200)
    names = list(FEATURES)
    before = client.query_offline([CUSTOMER], names, "timestamp", input_dataframe=spine)

    client.log("music", "orders", data.live_orders())

    after = client.query_offline([CUSTOMER], names, "timestamp", input_dataframe=spine)
    pd.testing.assert_frame_equal(before, after)
    now = client.query([CUSTOMER], names, spine[[CUSTOMER]], as_of=data.ENDS_AT)
    assert not now["Shopper.orders_ever"].equals(before["Shopper.orders_ever"])


def test_an_order_without_a_customer_record_counts_for_no_cohort(client: MockClient) -> None:
    at = pd.Timestamp("1998-01-05T12:00:00Z")
    order = pd.DataFrame({"customer": [7], "cds": [2], "dollars": [30.0], "ordered_at": [at]})
    client.log("music", "orders", order)

    wanted = ["Shopper.orders_30d", "Shopper.cohort", "Shopper.cohort_orders_30d"]
    [row] = client.query([CUSTOMER], wanted, pd.DataFrame({CUSTOMER: [7]}), as_of=at).to_dict(
        "records"
    )

    assert row == {
        "Shopper.orders_30d": 1,
        "Shopper.cohort": "",
        "Shopper.cohort_orders_30d": 0,
    }


def test_the_demo_picks_customers_who_order_more_often_than_others() -> None:
    from examples.orders.demo import run  # noqa: PLC0415 - it loads scikit-learn

    outcome = run(MockClient(), fill)

    assert (outcome.rows, outcome.unequal) == (9428, ())
    assert outcome.share_of_picked > 3 * outcome.share
