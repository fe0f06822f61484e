"""The policy limits what a commit may name; each error has the line and the rule to request."""

from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex._analysis.checks.places import place_errors
from narthex._analysis.policy.commit_checks import policy_errors, tags_of_place
from narthex._analysis.policy.platform_places import EVERYWHERE, own_places
from narthex._analysis.policy.policy import Policy
from narthex._base.origin import Origin
from narthex._ir.connections import Csv, Files, KafkaTopic, SecretRef, TableFormat, WebhookEndpoint
from narthex._ir.entities import Connector, Definitions, Sink
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import dataset
from narthex.errors import DefinitionError, NotGranted, PlaceForbidden
from narthex.settings import Settings

__owner__ = "a@b.co"

LINE = Origin(file="shop.py", line=7)
DELTA = TableFormat(kind="delta")
KEYS: dict[str, Any] = {"access_key": SecretRef("s3/id"), "secret_key": SecretRef("s3/word")}


@source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class Orders:
    uid: int
    at: datetime


def files(path: str, **more: Any) -> Files:
    return Files(name="f", path=path, format=Csv(), **more)


def topic(name: str, servers: str = "b:9092") -> KafkaTopic:
    return KafkaTopic(name="k", bootstrap_servers=servers, topic=name)


def endpoint(name: str) -> WebhookEndpoint:
    return WebhookEndpoint(webhook="w", endpoint=name)


def reading(connector: Connector) -> Definitions:
    (orders,) = definitions([Orders], []).datasets
    (one,) = orders.sources
    sources = (attrs.evolve(one, connector=connector, origin=LINE),)
    return Definitions(datasets=(attrs.evolve(orders, sources=sources),), featuresets=())


def writing(target: Connector) -> Definitions:
    (orders,) = definitions([Orders], []).datasets
    sinks = (Sink(target=target, origin=LINE),)
    return Definitions(datasets=(attrs.evolve(orders, sources=(), sinks=sinks),), featuresets=())


def judged(
    wanted: Definitions,
    rules: str = "",
    *,
    deployed: Definitions | None = None,
    branch: str = "main",
    places: tuple[str, ...] = ("home", "s3://lake/history"),
) -> tuple[DefinitionError, ...]:
    policy = Policy.parse(rules)
    return tuple(policy_errors(wanted, deployed, policy=policy, branch=branch, places=places))


MAIN_READS = '[[files]]\npath = "a/**"\nbranches = ["main"]\n'
OUT = '[[files]]\npath = "s3://out/**"\nbranches = ["main"]\nwrite = true\n'
TOPIC = '[[topics]]\nname = "orders"\nservers = "b:*"\nbranches = ["main"]\n'
ENDPOINT = '[[endpoints]]\nname = "w/e"\nbranches = ["main"]\n'


@pytest.mark.parametrize(
    ("wanted", "rules"),
    [
        (reading(files("a/b.csv")), ""),
        (reading(files("s3://theirs/b.csv", **KEYS)), ""),
        (reading(files("a/b.csv")), MAIN_READS),
        (reading(topic("orders")), ""),
        (reading(topic("orders")), TOPIC),
        (reading(topic("others")), TOPIC),
        (reading(endpoint("e")), ""),
        (reading(endpoint("e")), ENDPOINT),
        (writing(files("s3://out/t")), OUT),
        (writing(topic("orders")), TOPIC + "write = true\n"),
    ],
)
def test_granted_names_pass(wanted: Definitions, rules: str) -> None:
    assert judged(wanted, rules) == ()


@pytest.mark.parametrize(
    ("wanted", "rules", "branch", "hint"),
    [
        (reading(files("a/b.csv")), MAIN_READS, "dev", '[[files]] path = "a/b.csv"'),
        (reading(files("c.csv")), MAIN_READS, "main", '[[files]] path = "c.csv"'),
        (reading(files("s3://b/c", **KEYS)), MAIN_READS, "main", '[[files]] path = "s3://b/c"'),
        (reading(files("s3://theirs/b.csv")), "", "main", '[[files]] path = "s3://theirs/b.csv"'),
        (reading(files("s3://b", access_key=SecretRef("k"))), "", "main", '"s3://b"'),
        (reading(topic("orders")), TOPIC, "dev", '[[topics]] name = "orders"'),
        (reading(topic("orders", "alias:1")), TOPIC, "main", '[[topics]] name = "orders"'),
        (reading(endpoint("e")), ENDPOINT, "dev", '[[endpoints]] name = "w/e"'),
        (writing(files("s3://out/t")), "", "main", "write = true"),
        (writing(files("s3://out/t")), OUT, "dev", "write = true"),
        (writing(files("s3://out/t")), OUT.replace("true", "false"), "main", "write = true"),
        (writing(topic("orders")), "", "main", "write = true"),
        (writing(topic("orders")), TOPIC, "main", "write = true"),
    ],
)
def test_names_without_a_grant_are_refused_with_the_rule_to_request(
    wanted: Definitions, rules: str, branch: str, hint: str
) -> None:
    (error,) = judged(wanted, rules, branch=branch)

    assert isinstance(error, NotGranted)
    assert error.origin == LINE
    assert hint in error.hint
    assert f"branch `{branch}`" in error.message


def test_unchanged_bindings_are_not_checked_again() -> None:
    had = reading(files("a/b.csv"))
    changed = reading(files("a/*.csv"))
    theirs = reading(files("s3://b/c.csv", **KEYS))

    assert judged(had, MAIN_READS, branch="dev", deployed=had) == ()
    assert len(judged(changed, MAIN_READS, branch="dev", deployed=had)) == 1
    assert len(judged(reading(files("s3://b/c.csv")), deployed=theirs)) == 1
    assert len(judged(writing(topic("orders")), deployed=reading(topic("orders")))) == 1


@pytest.mark.parametrize("path", ["home/a", "**", "h*/a", "s3://lake/history/t", "s3://lake/**"])
def test_the_platforms_own_places_are_always_refused(path: str) -> None:
    rules = '[[files]]\npath = "**"\nbranches = ["*"]\n' + OUT.replace(
        "s3://out/**", "s3://lake/**"
    )
    wanted = reading(files(path, **KEYS))

    (error,) = judged(wanted, rules, deployed=wanted)

    assert isinstance(error, PlaceForbidden)
    assert error.origin == LINE


@pytest.mark.parametrize("name", ["__x", "nx_abcdefg1_kt_y", "narthex_answers_x", "^a", "a,b", ""])
def test_a_topic_has_one_plain_name_that_is_not_the_platforms(name: str) -> None:
    (error,) = place_errors(topic(name), LINE)

    assert isinstance(error, PlaceForbidden)
    assert error.origin == LINE


def test_a_webhook_has_no_slash_in_its_name() -> None:
    assert len([*place_errors(WebhookEndpoint(webhook="a/b", endpoint="c"), LINE)]) == 1
    assert [*place_errors(WebhookEndpoint(webhook="a", endpoint="b/c"), LINE)] == []


def test_tags_are_those_of_every_rule_that_may_meet_the_place() -> None:
    policy = Policy.parse(
        '[[files]]\npath = "a/secret/**"\nbranches = ["*"]\ntags = ["pii"]\n'
        '[[files]]\npath = "a/**"\nbranches = ["*"]\ntags = ["team"]\n'
        '[[topics]]\nname = "orders*"\nservers = "b:*"\nbranches = ["*"]\ntags = ["money"]\n'
        '[[endpoints]]\nname = "w/*"\nbranches = ["dev"]\ntags = ["web"]\n'
    )

    assert tags_of_place(("files", "a/**"), policy) == {"pii", "team"}
    assert tags_of_place(("files", "a/b.csv"), policy) == {"team"}
    assert tags_of_place(("topic", "orders.v2"), policy) == {"money"}
    assert tags_of_place(("endpoint", "w/e"), policy) == {"web"}
    assert tags_of_place(("table", "orders"), policy) == frozenset()


def settings(home: Path, root: Path, history: str = "") -> Settings:
    return Settings(
        home=home,
        install_id="tests000",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=home / "index",
        history_dir=history or str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=root,
        jars_dir=home / "jars",
    )


def test_the_platforms_places_are_named_as_an_author_would_name_them(tmp_path: Path) -> None:
    home = tmp_path / "root" / "state"
    (tmp_path / "link").symlink_to(tmp_path / "root")

    below = own_places(settings(home, tmp_path / "link", "s3://lake/history"))
    same = own_places(settings(home, home))
    above = own_places(settings(home, home / "files"))
    beside = own_places(settings(home, tmp_path / "files"))
    inside = own_places(settings(home, home / "index" / "a"))

    assert {"state", "state/index", "s3://lake/history"} <= set(below)
    assert EVERYWHERE in same
    assert EVERYWHERE in inside
    assert above == beside == ()
