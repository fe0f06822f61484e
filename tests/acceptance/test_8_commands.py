"""The commands of guides that read and copy the stores of a platform, on a shop with rows."""

import datetime as dt
import json
import re
from contextlib import closing
from typing import Any, Final

import attrs
import pytest

from narthex.client import Client
from narthex_spark_apps.storage.snapshots import place_of
from tests.acceptance.platform import STREAM_S, Platform, wait_until
from tests.guides.pages import DOCS, blocks
from tests.guides.shell import Shell, environment

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

GUIDE: Final = DOCS / "guide"
QUICKSTART: Final = GUIDE / "quickstart.md"
QUALITY: Final = GUIDE / "quality.md"

BRANCH, CANDIDATE = "shop", "candidate"
FIRST, BUYERS = 100, 300
"""The first buyer, and how many there are."""

RECEIPTS: Final = 60


@attrs.frozen(kw_only=True)
class ShopReader:
    """A person with the quickstart's project on the branch `shop`, and another on `candidate`."""

    platform: Platform
    shell: Shell
    commit_id: str

    def index_name(self) -> str:
        """Return the name of the index of `Spend`, which snapshots of it have."""
        assets = self.platform.commit_of(self.commit_id)["assets"]
        (found,) = [str(one["physical_name"]) for one in assets if one["kind"] == "index"]
        return found

    def asks(self, user: int) -> dict[str, Any]:
        """Ask for the features of a buyer, as the quickstart does."""
        printed = self.shell.prints(f"narthex query Shopper --with Shopper.user_id={user} --json")
        answers: dict[str, list[Any]] = json.loads(printed)["answers"]
        return {name.partition(".")[2]: value for name, (value,) in answers.items()}

    def pays(self, *users: int) -> None:
        """Let users pay 10 and more, each once."""
        rows = (
            {
                "user_id": user,
                "amount": 10.0 + user % 50,
                "paid_at": dt.datetime.now(dt.UTC).isoformat(),
            }
            for user in users
        )
        self.shell.types(
            "narthex log shop purchases --wait",
            answer="".join(f"{json.dumps(row)}\n" for row in rows),
        )


def shop_definitions() -> str:
    """Return the definitions of the quickstart, with an endpoint of their own.

    Branches with the same definitions share assets, and the quickstart counts its own rows.
    """
    text = next(one.text for one in blocks(QUICKSTART, "python") if "class Spend" in one.text)
    return text.replace('endpoint("payments")', 'endpoint("purchases")')


def candidate_definitions() -> str:
    """Return the payments of the quickstart alone, with a currency, from another endpoint."""
    kept = shop_definitions().partition("@dataset(index=True)")[0]
    return kept.replace('endpoint("purchases")', 'endpoint("receipts")').replace(
        "    amount: float\n", "    euros: float\n    currency: str\n"
    )


@pytest.fixture(scope="module")
def shop(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> ShopReader:
    """Commit both projects, and let buyers pay."""
    directory = tmp_path_factory.mktemp("shop")
    (directory / "features.py").write_text(shop_definitions(), encoding="utf-8")
    (directory / "candidate.py").write_text(candidate_definitions(), encoding="utf-8")
    settings = platform.settings
    with closing(Client(settings.server_url, settings.token)) as client:
        client.init_branch(BRANCH)
        client.init_branch(CANDIDATE)
    shell = Shell(directory=directory, variables=environment(settings.home, NARTHEX_BRANCH=BRANCH))
    *_, commit_id = shell.types("narthex commit features.py").split()
    reader = ShopReader(platform=platform, shell=shell, commit_id=commit_id)
    shell.types(f"narthex commit candidate.py --branch {CANDIDATE}")
    reader.pays(*range(FIRST, FIRST + BUYERS))
    receipts = [
        {
            "user_id": number,
            "euros": 1.5,
            "currency": ("CHF", "EUR")[number % 2],
            "paid_at": dt.datetime.now(dt.UTC).isoformat(),
        }
        for number in range(RECEIPTS)
    ]
    shell.types(
        f"narthex log shop receipts --wait --branch {CANDIDATE}",
        answer="".join(f"{json.dumps(row)}\n" for row in receipts),
    )
    assert [reader.asks(user)["payments_ever"] for user in (FIRST, FIRST + BUYERS - 1)] == [1, 1]
    return reader


def test_a_tenth_of_the_keys_is_proved(shop: ShopReader) -> None:
    proving, _ = blocks(GUIDE / "running.md", "sh platform")

    proof = json.loads(shop.shell.prints(proving.text))

    assert proof["differences"] == []
    assert proof["unproved"] == []
    assert proof["compared"].keys() == {"Spend.log", "Spend.index", "Spend.history"}
    assert 0 < proof["compared"]["Spend.log"] < BUYERS / 2


def test_expectations_are_proposed_from_the_rows_of_a_branch(shop: ShopReader) -> None:
    (both,) = blocks(QUALITY, "sh platform")
    mine, of_candidate = both.text.splitlines()

    source = shop.shell.prints(mine)
    proposed = json.loads(shop.shell.prints(of_candidate))

    assert f"# 99 % of {BUYERS} values are from 10 to 59\n" in source
    assert "expect_column_values_to_be_between('amount', " in source
    assert "currency" not in source
    assert proposed["sampled_rows"] == RECEIPTS
    assert "expect_column_values_to_be_between('euros', " in proposed["source"]
    in_page = "expect_column_values_to_be_in_set('currency', value_set=['CHF', 'EUR'])"
    assert in_page in QUALITY.read_text(encoding="utf-8")
    assert in_page in proposed["source"]


def test_an_index_that_was_restored_has_later_rows_too(shop: ShopReader) -> None:
    _, snapshots = blocks(GUIDE / "running.md", "sh platform")
    taking, listing, restoring = snapshots.text.splitlines()
    index = shop.index_name()
    directory = place_of(shop.platform.settings, index)

    taken = shop.shell.prints(taking)
    listed = shop.shell.prints(listing)
    shop.pays(FIRST)
    assert shop.asks(FIRST)["payments_ever"] == 2
    inode = directory.stat().st_ino
    restored = shop.shell.prints(restoring, NAME=index)

    (snapshot,) = re.findall(rf"^{index}  (\S+)  [\d.]+ MB$", taken, re.MULTILINE)
    assert re.search(rf"^{index} +{snapshot} +[\d.]+ MB$", listed, re.MULTILINE), listed
    assert re.fullmatch(rf"{index}  \S+  [\d.]+ MB\n", restored)
    (replaced,) = directory.parent.glob(f".replaced-{index}-*")
    assert replaced.stat().st_ino == inode
    shop.pays(FIRST)
    wait_until(
        lambda: (
            (shop.asks(FIRST)["payments_ever"], shop.asks(FIRST + 1)["payments_ever"]) == (3, 1)
        ),
        within_s=STREAM_S,
        what="the restored index has the rows since the snapshot, and those since its restore",
        so_far=lambda: shop.asks(FIRST),
    )
