"""The example of pages that may be phishing answers as an independent computation does."""

from pathlib import Path

import pandas as pd
import pytest

from examples.phishing import data, features
from examples.phishing.questions import (
    FEATURES,
    PAGE,
    answers_from_tables,
    labelled_spine,
)
from narthex.cli.projects.author_files import load_file
from narthex.errors import Refused, render_report
from narthex_reference.inprocess import MockClient

pytestmark = pytest.mark.slow


@pytest.fixture
def client() -> MockClient:
    client = MockClient()
    client.commit(
        "pages",
        datasets=[features.Pages, features.Verdicts, features.Lookalikes],
        featuresets=[features.OpenedPage],
    )
    return client


def log_all(client: MockClient) -> None:
    client.log("browser", "pages", data.seen_pages())
    client.log("browser", "verdicts", data.late_verdicts())


def test_the_definitions_are_sound() -> None:
    found = load_file(Path(features.__file__))

    assert render_report(found.check()) == ""
    assert (len(found.datasets), len(found.featuresets)) == (3, 1)


def test_the_data_is_that_of_the_package() -> None:
    pages, verdicts = data.seen_pages(), data.late_verdicts()

    assert (len(pages), int(verdicts["is_phishing"].sum())) == (1250, 548)
    assert not pages.isna().any().any()
    assert pages.iloc[1].to_dict() == {
        "page": 1,
        "https": "suspicious",
        "anchors": "phishing",
        "requests": "suspicious",
        "popup": "phishing",
        "has_ip": False,
        "seen_at": pd.Timestamp("2026-01-01T00:01:00Z"),
    }


def test_each_page_of_a_training_set_is_as_computed_from_the_tables(client: MockClient) -> None:
    log_all(client)
    spine = labelled_spine()

    training = client.training_set("all", spine, list(FEATURES), timestamp_column="timestamp")

    expected = answers_from_tables(data.seen_pages(), data.late_verdicts())
    pd.testing.assert_frame_equal(
        training.frame[list(FEATURES)], expected[list(FEATURES)], check_dtype=False
    )
    assert training.frame["is_phishing"].tolist() == spine["is_phishing"].tolist()


def test_a_verdict_counts_from_its_own_instant_and_for_six_hours(client: MockClient) -> None:
    log_all(client)
    decided = data.FIRST + data.VERDICT_AFTER
    alike = pd.DataFrame({PAGE: [0]})
    second = pd.Timedelta(seconds=1)

    def phishing_at(at: pd.Timestamp) -> tuple[int, int]:
        wanted = ["OpenedPage.phishing_6h", "OpenedPage.judged_ever"]
        [row] = client.query([PAGE], wanted, alike, as_of=at).to_dict("records")
        return row["OpenedPage.phishing_6h"], row["OpenedPage.judged_ever"]

    page, judged = data.seen_pages(), data.late_verdicts()
    looks = page[["https", "anchors"]].eq(page.loc[0, ["https", "anchors"]]).all(axis=1)
    instants = judged.loc[looks & judged["is_phishing"], "decided_at"]
    end = decided + pd.Timedelta(hours=6)
    assert phishing_at(decided - second) == (0, 0)
    assert phishing_at(decided) == (1, 1)
    assert phishing_at(end)[0] == int(instants.between(decided, end).sum())
    assert phishing_at(end + second)[0] == int(instants.between(decided + second, end).sum())
    assert phishing_at(end)[0] == phishing_at(end + second)[0] + 1


def test_an_unknown_page_has_defaults(client: MockClient) -> None:
    asked = pd.DataFrame({PAGE: [-1]})

    [row] = client.query([PAGE], list(FEATURES), asked).to_dict("records")

    assert row == {
        "OpenedPage.https": "suspicious",
        "OpenedPage.anchors": "suspicious",
        "OpenedPage.bad_signals": 0,
        "OpenedPage.has_ip": False,
        "OpenedPage.judged_6h": 0,
        "OpenedPage.phishing_6h": 0,
        "OpenedPage.judged_ever": 0,
        "OpenedPage.share_6h": 0.5,
    }


def test_a_signal_without_a_known_value_is_refused(client: MockClient) -> None:
    page = data.seen_pages().head(1).assign(https="unknown")

    with pytest.raises(Refused, match=r"row 0, Pages: `https`: found .unknown."):
        client.log("browser", "pages", page)


def test_the_demo_trains_a_model_that_is_much_better_than_a_guess() -> None:
    from examples.phishing.demo import ASKED, run  # noqa: PLC0415 - it loads scikit-learn

    outcome = run(MockClient())

    assert (outcome.rows, outcome.unequal, len(ASKED)) == (1250, (), 4)
    assert outcome.score > 0.85
