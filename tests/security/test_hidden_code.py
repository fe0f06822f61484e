"""What runs is what was hashed and shown: no text hides behind the fingerprint of another."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import attrs
import pytest

from narthex._base.canonical_source import HEADER
from narthex._base.records import to_plain
from narthex._definition_code import dataset_code, featureset_code
from narthex._ir.code import UserCode, codes_in, with_codes
from narthex._ir.entities import Definitions
from narthex.cli.projects.author_files import load_file
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import accept, create_all, payload, step

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SHOP = """
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.featuresets import extractor, featureset
from narthex.lib import inputs, outputs

__owner__ = "me@example.org"
RATE = 2.0


def scored(df):
    return df["amount"] * RATE


@source(Webhook(name="shop").endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    amount: float
    at: datetime = field(timestamp=True)


@dataset
class Scored:
    amount: float
    score: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def scores(cls, orders):
        return orders.assign("score", float, scored)


@featureset
class Buyer:
    amount: float
    score: float

    @extractor
    @inputs("amount")
    @outputs("score")
    def score_of(cls, ts, amount):
        return amount * RATE
"""

Texts: TypeAlias = dict[UUID | str, list[str]]

HOSTILE: dict[str, dict[str, str]] = {
    "annotation": {HEADER: "", "(df)": "(df: (RATE := -31337.0))", "ts,": "ts: (RATE := -1.0),"},
    "result": {HEADER: "", "(df):": "(df) -> (RATE := -31337.0):"},
    "constant": {HEADER: "", "RATE = (2.0)": "RATE: (RATE := -31337.0) = 2.0"},
    "docstring": {"(df):\n": "(df):\n    'RATE = -31337.0'\n"},
    "comment": {"RATE = (2.0)": "RATE = (2.0)  # -31337.0"},
    "order": {"RATE = (2.0)\n": "", "RATE\n": "RATE\n\nRATE = (2.0)\n"},
    "default": {"(df)": "(df, RATE=-31337.0)", "amount)": "amount, RATE=-31337.0)"},
    "value": {"2.0": "-31337.0"},
    "second_function": {"* RATE\n": "* RATE\n\nscored = lambda df: -31337.0\n"},
}

UNSEEN = {"annotation", "result", "constant", "docstring", "comment"}
"""What no run can see: it is neither hashed nor run."""


@pytest.fixture
def house(tmp_path: Path, ledger_dsn: str) -> Any:
    settings = settings_at(tmp_path / "home", dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        yield house


def honest(tmp_path: Path) -> Definitions:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    return load_file(tmp_path / "shop.py").definitions()


def altered(definitions: Definitions, changes: dict[str, str]) -> Definitions:
    """Return what an author's own client may send: other texts, in the name of the honest ones."""

    def changed(code: UserCode) -> UserCode:
        text = code.author_text
        for was, now in changes.items():
            text = text.replace(was, now)
        return attrs.evolve(code, written=text)

    found = with_codes(definitions, changed)
    assert isinstance(found, Definitions)
    assert to_plain(found) != to_plain(definitions)
    return found


def commit(house: House, definitions: Definitions, branch: str) -> bool:
    """Move the head of a branch to definitions; return whether they were accepted."""
    headers = {"x-narthex-branch": branch}
    answer = house.client.post("/api/v1/commit", content=payload(definitions), headers=headers)
    if answer.status_code == 400:
        return False
    commit_id = accept(house.client, definitions, **headers)
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)
    return True


def texts_that_run(house: House, branch: str) -> Texts:
    """Return the texts of the jobs of a branch by asset, and those of its extractors."""
    snapshot = house.services.snapshots.head(branch)
    bound = {asset.asset_id for asset in snapshot.bindings.values()}
    texts: Texts = {
        job.asset.asset_id: [code.source for code in codes_in(job.asset.spec)]
        for job in house.services.ledger.jobs.all()
        if job.asset.asset_id in bound
    }
    texts["extractors"] = [code.source for code in codes_in(snapshot.definitions.featuresets)]
    return {asset: found for asset, found in texts.items() if found}


def shown_to_people(house: House, branch: str) -> str:
    """Return the definitions of a branch as pages show them."""
    shown = house.services.snapshots.head(branch).definitions
    datasets = [dataset_code(one, shown.datasets) for one in shown.datasets]
    return "\n".join([*datasets, *map(featureset_code, shown.featuresets)])


def test_code_of_another_branch_is_neither_hidden_nor_shared(house: House, tmp_path: Path) -> None:
    definitions = honest(tmp_path)
    assert commit(house, definitions, "main")
    main = texts_that_run(house, "main")
    assert sorted(chain(*main.values())) == sorted(code.source for code in codes_in(definitions))
    assert len(main) == 2

    failures: list[str] = []
    for what, changes in HOSTILE.items():
        branch = f"dev/{what}"
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": branch})
        is_accepted = commit(house, altered(definitions, changes), branch)
        if is_accepted == (what == "second_function"):
            failures.append(f"{what}: accepted: {is_accepted}")
        elif is_accepted:
            failures += wrong(what, main, texts_that_run(house, branch))
            failures += hidden(house, branch)
    assert failures == []


def wrong(what: str, main: Texts, others: Texts) -> Iterator[str]:
    """Yield the assets of a branch that run another text than their name says."""
    if what in UNSEEN and others != main:
        yield f"{what}: what no run can see is run, or rebuilds an asset: {others}"
    if what not in UNSEEN and others.keys() == main.keys():
        yield f"{what}: another text shares the asset of the honest one"
    for asset, texts in main.items():
        if asset != "extractors" and others.get(asset, texts) != texts:
            yield f"{what}: {asset} runs {others[asset]}"


def hidden(house: House, branch: str) -> Iterator[str]:
    """Yield the lines that run and that people are not shown."""
    read = {line.strip() for line in shown_to_people(house, branch).splitlines()}
    for text in chain(*texts_that_run(house, branch).values()):
        for line in text.removeprefix(HEADER).splitlines():
            if line.strip() not in read:
                yield f"{branch}: nobody is shown `{line}`"
