"""Tags go with the rows through every place that a source reads and a sink writes."""

import attrs
import pytest

from narthex._analysis.policy.policy import Policy
from narthex._ir.connections import Csv, Files, KafkaTopic, TableFormat
from narthex._ir.entities import Connector, Definitions, Sink
from narthex._sdk.commit_definitions import definitions
from narthex_server.definitions.inherited_tags import tags_of
from narthex_server.services.shared_sources import Shared, carried_by
from tests.security.test_policy_doors import LastOrders
from tests.server.security.test_visibility import said
from tests.server.shop import Orders


def passed_on(read: Connector, told: Connector, *tags: str) -> Definitions:
    """Return orders from a place, and what is made of them to another one."""
    (orders, last) = definitions([Orders, LastOrders], []).datasets
    (source,) = orders.sources
    made = Definitions(
        datasets=(
            attrs.evolve(orders, sources=(attrs.evolve(source, connector=read),)),
            attrs.evolve(last, sinks=(Sink(target=told),)),
        ),
        featuresets=(),
    )
    return said(made, "Orders", *tags)


def topic(name: str, servers: str = "b:9092") -> KafkaTopic:
    return KafkaTopic(name="k", bootstrap_servers=servers, topic=name)


def table(path: str) -> Files:
    return Files(name="f", path=path, format=TableFormat(kind="delta"))


def tags(*branches: Definitions, of: Definitions, policy: Policy = Policy()) -> frozenset[str]:  # noqa: B008 - a frozen value
    """Return the tags of what is made of orders on one branch beside the others."""
    carried = carried_by([*branches, of], policy)
    shared = Shared(policy=policy, carried=carried, owners={}, branches=())
    return tags_of(of, shared.sources(of)).have["dataset", "LastOrders"]


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (topic("a"), topic("a")),
        (topic("a"), topic("a", "other.example.com:1")),
        (table("s3://lake/t"), Files(name="f", path="s3://lake/**", format=Csv())),
        (table("s3://lake/t"), table("s3://lake/t/**")),
    ],
)
def test_rows_of_another_branch_keep_their_tags(told: Connector, read: Connector) -> None:
    writer = passed_on(topic("in"), told, "pii")
    reader = passed_on(read, topic("out"))

    assert tags(writer, of=reader) == {"pii"}
    assert tags(passed_on(topic("in"), topic("elsewhere"), "pii"), of=reader) == frozenset()


def test_tags_go_through_a_chain_of_branches_and_round_a_circle() -> None:
    first = passed_on(topic("a"), topic("b"), "pii")
    second = passed_on(topic("b"), topic("c"))
    third = passed_on(topic("c"), topic("a"))

    assert tags(first, second, of=third) == {"pii"}
    assert tags(third, second, of=first) == {"pii"}


def test_a_tag_that_is_cancelled_before_a_sink_is_not_carried_on() -> None:
    writer = said(passed_on(topic("in"), topic("b"), "pii"), "LastOrders", "~pii")

    assert tags(writer, of=passed_on(topic("b"), topic("c"))) == frozenset()


def test_rules_tag_places_and_what_is_made_of_them_elsewhere() -> None:
    policy = Policy.parse('[[topics]]\nname = "a"\nbranches = ["*"]\ntags = ["money"]\n')
    writer = passed_on(topic("a"), topic("b"))

    assert tags(of=writer, policy=policy) == {"money"}
    assert tags(writer, of=passed_on(topic("b"), topic("c")), policy=policy) == {"money"}
