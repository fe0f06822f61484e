# mypy: disable-error-code="assignment"
"""Answers are logged on request, unchanged and with the offsets that they read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex._query.logged_queries import GarbledAnswerError, LoggedQuery, answers_topic
from narthex._sdk.commit_definitions import definitions
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex_server.services.query_log import QueryLog, is_drawn
from narthex_stores import InMemoryAdapter, LogProducer, LogReader, TopicAdapter, index_store
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.data.test_online_queries import Cards, Payments
from tests.server.driving import serve

__owner__ = "tests@narthex.dev"


@featureset
class Risk:
    """The features of a card."""

    card: str
    payments: int = feature(Cards.n, default=0)
    more: int = feature(col("payments") + 1)


ANSWER = LoggedQuery(
    tenant="1",
    branch="main",
    commit_id="c",
    as_of=7,
    workflow="",
    inputs={"Risk.card": ["a"]},
    outputs={"Risk.more": [1]},
    offsets={"Cards": {"t": {"0": 3}}},
)


@contextmanager
def bank_at(home: Path, *, dsn: str, kafka: str, install_id: str) -> Iterator[House]:
    """Serve the features of cards; the log of queries belongs to the installation's id."""
    settings = settings_at(home, dsn=dsn, kafka=kafka)
    adapters = in_memory() | {
        AssetKind.INDEX: index_store(settings).adapter(),
        AssetKind.KAFKA_TOPIC: TopicAdapter.connect(kafka),
    }
    with house_at(attrs.evolve(settings, install_id=install_id), adapters=adapters) as house:
        serve(house, definitions([Payments, Cards], [Risk]))
        yield house


@pytest.fixture
def retained_assets(
    tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    home = tmp_path_factory.mktemp("bank")
    with bank_at(home, dsn=ledger_dsn, kafka=kafka_bootstrap, install_id="lookups0") as house:
        yield house


def ask(house: House, **more: Any) -> Any:
    asked = {"inputs": ["Risk.card"], "outputs": ["Risk"], "data": {"Risk.card": ["a", "b"]}}
    return house.client.post("/api/v1/query", json=asked | more)


def logged(house: House) -> list[LoggedQuery]:
    topic = answers_topic(house.services.settings.install_id)
    found: list[LoggedQuery] = []
    with LogReader(house.services.settings.kafka) as reader:
        ends = reader.end_offsets([topic])
        reader.assign(dict.fromkeys(ends, 0))
        while len(found) < sum(ends.values()):
            records = reader.poll(max_records=100, timeout_s=5.0)
            found += [LoggedQuery.decoded(one.value or b"") for one in records]
    return found


@pytest.mark.postgres
@pytest.mark.kafka
def test_an_answer_is_logged_unchanged_on_request(retained_assets: House) -> None:
    assert ask(retained_assets).status_code == 200
    assert logged(retained_assets) == []

    given = ask(retained_assets, log=True, workflow="ranking", explain=True)
    assert ask(retained_assets, log=True, sampling_rate=0.0).status_code == 200

    (one,) = logged(retained_assets)
    read = given.json()["read"]
    header = json.loads(given.headers["x-narthex-read"])
    assert header == {name: of for name, of in read.items() if name != "offsets"}
    assert (
        one.outputs
        == given.json()["answers"]
        == {
            "Risk.card": ["a", "b"],
            "Risk.payments": [0, 0],
            "Risk.more": [1, 1],
        }
    )
    assert one.inputs == {"Risk.card": ["a", "b"]}
    assert (one.branch, one.workflow) == ("main", "ranking")
    assert (one.commit_id, one.as_of) == (read["commit_id"], read["as_of"])
    assert one.offsets == read["offsets"]
    assert (
        'narthex_logged_queries_total{durable="true"} 1'
        in retained_assets.client.get("/api/v1/metrics").text
    )


@pytest.mark.postgres
@pytest.mark.kafka
def test_a_share_that_is_none_is_refused(retained_assets: House) -> None:
    refused = ask(retained_assets, log=True, sampling_rate=1.5)

    assert refused.status_code == 400
    assert "sampling_rate" in refused.text


@pytest.mark.slow
@pytest.mark.kafka
def test_an_answer_without_a_broker_is_not_logged() -> None:
    with LogProducer(NOBODY) as producer:
        log = QueryLog(
            install_id="lookups1",
            producer=producer,
            topics=InMemoryAdapter(AssetKind.KAFKA_TOPIC),
            durable_within_s=0.05,
        )

        assert not log.keep(ANSWER.encoded())


def test_a_sample_of_answers_is_drawn_by_content() -> None:
    answers = [attrs.evolve(ANSWER, as_of=instant).encoded() for instant in range(2_000)]

    drawn = [is_drawn(one, 0.25) for one in answers]

    assert drawn == [is_drawn(one, 0.25) for one in answers]
    assert 400 < sum(drawn) < 600
    assert all(is_drawn(one, None) for one in answers)
    assert not any(is_drawn(one, 0.0) for one in answers)


def test_a_logged_query_round_trips() -> None:
    assert LoggedQuery.decoded(ANSWER.encoded()) == ANSWER
    for garbled in (b"", b"[]", b'{"tenant": "1"}'):
        with pytest.raises(GarbledAnswerError, match="not a logged query"):
            LoggedQuery.decoded(garbled)
