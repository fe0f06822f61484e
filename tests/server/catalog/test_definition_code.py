"""Routes that write deployed definitions as Python, and list sources and sinks."""

import attrs
import pytest

from narthex._compiler import target_id
from narthex._definition_code import dataset_code, featureset_code
from narthex._ir import KafkaTopic, SecretRef
from narthex._ir.entities import Cdc, Sink
from narthex_server.catalog.connectors import deployed_sinks
from tests.server.conftest import House
from tests.server.driving import serve
from tests.server.shop import shop_definitions


@pytest.fixture
def shop(house: House) -> House:
    serve(house, shop_definitions())
    return house


@pytest.mark.postgres
def test_deployed_definitions_are_written_as_python(shop: House) -> None:
    orders, users, spend = shop_definitions().datasets
    (buyer,) = shop_definitions().featuresets

    found = shop.client.get("/api/v1/datasets/Spend/code").json()
    of_features = shop.client.get("/api/v1/featuresets/Buyer/code").json()
    unknown = [
        shop.client.get(f"/api/v1/{one}/Nothing/code") for one in ("datasets", "featuresets")
    ]

    assert found["is_complete"]
    as_sent = found["code"].replace(", partitions=2", "")
    assert as_sent == dataset_code(spend, (orders, users, spend))
    assert of_features == {"code": featureset_code(buyer), "is_complete": True}
    assert [one.status_code for one in unknown] == [404, 404]


@pytest.mark.postgres
def test_sources_are_listed_with_the_datasets_that_read_them(shop: House) -> None:
    found = shop.client.get("/api/v1/sources").json()["sources"]
    one = shop.client.get("/api/v1/sources", params={"name": "webhook:shop/orders"}).json()
    unknown = shop.client.get("/api/v1/sources", params={"name": "webhook:shop/nothing"})

    assert [(source["name"], source["kind"]) for source in found] == [
        ("webhook:shop/orders", "Webhook"),
        ("webhook:shop/users", "Webhook"),
    ]
    assert one["sources"] == found[:1]
    assert found[0]["properties"] == {"webhook": "shop", "endpoint": "orders"}
    assert found[0]["uses"] == [
        {
            "dataset": "Orders",
            "options": {
                "disorder": "1d",
                "cdc": "append",
                "preproc of at": "the column ordered_at",
                "where": 'col("test") == lit(False)',
            },
        }
    ]
    assert unknown.status_code == 404
    assert "no dataset of the branch has the source" in unknown.json()["err_msg"]
    assert shop.client.get("/api/v1/sinks").json() == {"sinks": []}


def test_sinks_are_listed_and_credentials_are_not_named() -> None:
    topic = KafkaTopic(
        name="broker",
        bootstrap_servers="",
        topic="spend",
        username=SecretRef("user"),
        password=SecretRef("word"),
    )
    sink = Sink(target=topic, cdc=Cdc.DEBEZIUM, renames=(("spent", "sum"),))
    orders, users, _ = shop_definitions().datasets
    (listed,) = deployed_sinks([attrs.evolve(one, sinks=(sink,)) for one in (orders, users)])

    assert (listed["name"], listed["kind"]) == (target_id(topic), "Kafka")
    assert listed["properties"] == {
        "name": "broker",
        "topic": "spend",
        "format": "json",
        "security_protocol": "PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "username": "a secret",
        "password": "a secret",
    }
    options = {"cdc": "debezium", "renames": "spent as sum"}
    assert listed["uses"] == [
        {"dataset": "Orders", "options": options},
        {"dataset": "Users", "options": options},
    ]
