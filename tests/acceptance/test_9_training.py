"""Training sets on a real platform: the guide's page, and frames that are those of unit tests."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from narthex.client import Client
from narthex.settings import environment_of
from narthex_reference.inprocess.client import MockClient
from tests.acceptance import market as features
from tests.acceptance.conftest import Market
from tests.acceptance.platform import STREAM_S, Platform, order, wait_until
from tests.guides.pages import DOCS, blocks
from tests.guides.terminal import Terminal

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

PAGE = DOCS / "guide" / "training.md"


def test_the_guide_on_training_works(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(platform.settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "fraud", None)
    del sys.modules["fraud"]
    made: dict[str, Any] = {}
    terminal = Terminal(monkeypatch=monkeypatch)

    for block in blocks(PAGE):
        match block.mark:
            case "python":
                (tmp_path / "fraud.py").write_text(block.text, encoding="utf-8")
            case "sh platform":
                terminal.types(block)
            case "py platform":
                # The page's own code.
                exec(compile(block.text, block.place, "exec"), made)  # noqa: S102

    training, spine, client = made["training"], made["spine"], made["client"]
    assert made["score"] > 0.9
    assert made["risk"] == pytest.approx(
        made["model"].predict_proba(made["last"][made["columns"]].astype(float))[0, 1]
    )
    counts = training.statistics["CardUser.payments_1h"]
    expected = training.frame["CardUser.payments_1h"].astype(float)
    assert counts["mean"] == pytest.approx(expected.mean())
    assert counts["stddev"] == pytest.approx(expected.std())
    assert (counts["nulls"], counts["rows"]) == (0, len(spine))
    assert "card-fraud-1   720  " in terminal.said["narthex training-set list --branch fraud"]
    shown = terminal.said["narthex training-set show card-fraud-1 --branch fraud"]
    assert "CardUser.payments_1h  0 nulls, 0 defaults, mean" in shown
    again = client.training_set(
        "card-fraud-1", spine, made["features"], timestamp_column="paid_at", at=made["offsets"]
    )
    assert again.data_sha256 == training.data_sha256
    require_counts(training.frame)


def require_counts(frame: pd.DataFrame) -> None:
    """Count again with pandas: payments of the user in the hour up to each payment."""
    for row in frame.itertuples(index=False, name=None):
        user, _, at, _, payments_1h, _ = row
        of_user = frame[frame["CardUser.user_id"] == user]["paid_at"]
        assert payments_1h == int(((of_user <= at) & (of_user > at - pd.Timedelta("1h"))).sum())


def test_at_the_same_offsets_a_training_set_has_the_same_bytes(platform: Platform) -> None:
    client = Client(platform.settings.server_url, platform.settings.token, "fraud")
    first = client.training_set("card-fraud-1")
    spine = first.frame.drop(columns=list(first.features))
    client.log(
        "cards",
        "payments",
        pd.DataFrame({"user_id": [int(spine["CardUser.user_id"][0])], "amount": [5.0]}).assign(
            paid_at=spine["paid_at"][0]
        ),
    )
    platform.settle()

    again = client.training_set(
        "card-fraud-2",
        spine,
        list(first.features),
        timestamp_column="paid_at",
        at=first.offsets,  # type: ignore[arg-type]
    )
    newest = client.training_set(
        "card-fraud-3", spine, list(first.features), timestamp_column="paid_at"
    )
    client.close()

    assert again.data_sha256 == first.data_sha256
    assert newest.data_sha256 != first.data_sha256


def test_offline_queries_give_the_frame_of_unit_tests(market: Market) -> None:
    platform, mock = market.platform, MockClient()
    mock.commit("a market", datasets=features.DATASETS, featuresets=features.FEATURESETS)
    users = [{"user": "una", "country": "NO", "moved_at": "2026-03-02T08:00:00Z"}]
    orders = [
        order("una", "2026-03-02T09:00:00Z", quantity=2),
        order("una", "2026-03-02T10:00:00Z", item="rope"),
    ]
    for client in (platform.client, mock):
        client.log("market", "users", pd.DataFrame(users))
        client.log("market", "orders", pd.DataFrame(orders))
    wait_until(
        lambda: (
            platform.ask(["Buyer.orders_ever"], as_of="2026-03-02T12:00:00Z", user="una")[
                "orders_ever"
            ]
            == 2
        ),
        within_s=STREAM_S,
        what="two orders of una",
    )
    platform.settle()
    spine = pd.DataFrame(
        {
            "label": [1, 0, 1, 0],
            "who": ["una", "una", "nobody", "una"],
            "at": pd.to_datetime(
                ["2026-03-02T09:30", "2026-03-02T10:30", "2026-03-02T10:30", "2026-03-01T00:00"]
            ),
            "weight": [0.5, None, 1.0, 2.0],
        }
    )
    asked: list[Any] = [[features.Buyer.user], [features.Buyer], "at", spine]
    names = {features.Buyer.user: "who"}

    real = platform.client.query_offline(*asked, feature_to_column_map=names)
    unit = mock.query_offline(*asked, feature_to_column_map=names)
    by_name = platform.client.query_offline(
        ["Buyer.user"], ["Buyer"], "at", spine, feature_to_column_map={"Buyer.user": "who"}
    )

    pd.testing.assert_frame_equal(real, unit)
    pd.testing.assert_frame_equal(real, by_name)
    assert list(real.columns)[:4] == ["label", "Buyer.user", "at", "weight"]
    assert real["Buyer.orders_ever"].tolist() == [1, 2, 0, 0]
    request_id = str(real.attrs["request_id"])
    pd.testing.assert_frame_equal(platform.client.offline_answers(request_id), real)
    listed = platform.client.offline_queries(limit=100)
    assert request_id in [one["request_id"] for one in listed]
