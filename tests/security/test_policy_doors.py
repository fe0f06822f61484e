"""The server checks files, endpoints and topics of definitions when authors commit."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import attrs
import pytest

from narthex._base.origin import Origin
from narthex._ir.connections import Csv, Files, KafkaTopic, SecretRef, TableFormat, WebhookEndpoint
from narthex._ir.entities import Cdc, Connector, Definitions, Sink
from narthex._sdk.commit_definitions import definitions
from narthex.datasets import dataset, field, pipeline
from narthex.lib import inputs
from tests.core.test_file_paths import LEAVING
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import serve
from tests.server.security.test_visibility import said
from tests.server.shop import Orders, payload, shop_definitions

__owner__ = "shop@narthex.dev"

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

S3_SECRETS = '\n[[secrets]]\nname = "s3/*"\nbranches = ["*"]\nhosts = ["amazonaws.com"]\n'
KEYS = {"access_key": SecretRef("s3/id"), "secret_key": SecretRef("s3/word")}
INTERNAL = ["__consumer_offsets", "nx_tests000_kt_abc_i1", "nx_other000_kt_x", "narthex_answers_a"]
PATTERNS = ["^.*", "orders,users", "", "a b", "a/b", "é", "a" * 250, ".", ".."]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[House]:
    """A server whose state is below the root of files, and whose history is in a bucket."""
    root = tmp_path_factory.mktemp("files")
    made = settings_at(root / "home", dsn=module_ledger_dsn, kafka=NOBODY)
    settings = attrs.evolve(made, files_root=root, history_dir="s3://lake/platform/history")
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, said(shop_definitions(), "Users", "pii"))
        rule(house, "")
        yield house


@pytest.fixture(autouse=True)
def no_policy(house: House) -> Iterator[None]:
    """Begin and end each test without a policy file."""
    yield
    rule(house, "")


def rule(house: House, text: str) -> None:
    (house.services.settings.home / "policy.toml").write_text(text + S3_SECRETS)


def read_from(connector: Connector, *, name: str = "Others") -> Definitions:
    """Return orders that one source feeds, in a dataset of a name of its own."""
    (orders,) = definitions([Orders], []).datasets
    source = attrs.evolve(orders.sources[0], connector=connector, where=None, preproc=())
    return Definitions(
        datasets=(attrs.evolve(orders, name=name, sources=(source,)),), featuresets=()
    )


def files(path: str, **more: Any) -> Definitions:
    return read_from(Files(name="f", path=path, format=Csv(), **more))


def topic(name: str, servers: str = "") -> KafkaTopic:
    return KafkaTopic(name="k", bootstrap_servers=servers, topic=name)


@dataset(index=True)
class LastOrders:
    """The last purchase of each user."""

    user: str = field(key=True)
    amount: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def newest(cls, orders: Any) -> Any:  # noqa: N805
        return orders.groupby("user").latest()


def told_to(target: Connector, *, how: str | None = None, cdc: Cdc | None = None) -> Definitions:
    """Return a dataset that a sink writes."""
    sink = Sink(target=target, cdc=cdc, how=how, origin=Origin(file="shop.py", line=7))
    (orders, last) = definitions([Orders, LastOrders], []).datasets
    return Definitions(datasets=(orders, attrs.evolve(last, sinks=(sink,))), featuresets=())


def commit(client: TestClient, wanted: Definitions, *, branch: str = "main") -> Any:
    return client.post(
        "/api/v1/commit",
        content=payload(wanted),
        params={"preview": True, "incremental": True},
        headers={"x-narthex-branch": branch},
    )


def client_of(
    house: House,
    name: str,
    *scopes: str,
    branches: Sequence[str] = ("*",),
    tags: Sequence[str] = ("*",),
) -> TestClient:
    token = f"nx_tests_{name}"
    house.ledger.tokens.put(
        token, name=name, scopes=scopes, branches=tuple(branches), tags=tuple(tags)
    )
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


def refused(answer: Any, code: str, *words: str) -> bool:
    """Whether a commit was refused with one error of a code, at the author's line."""
    if answer.status_code != 400:
        return False
    found = answer.json().get("errors", [])
    return bool(found) and all(
        one["code"] == code and one["line"] and all(word in answer.text for word in words)
        for one in found
    )


@pytest.mark.parametrize("path", LEAVING)
def test_a_source_does_not_leave_the_root_of_files(house: House, path: str) -> None:
    keys: dict[str, Any] = KEYS if path.startswith("s3://") else {}

    assert refused(commit(house.client, files(path, **keys)), "NX506")


@pytest.mark.parametrize(
    "path", ["home/services.json", "home/**", "**", "*/secrets.key", "ho[m]e/*"]
)
def test_a_source_does_not_read_the_state_of_the_platform(house: House, path: str) -> None:
    assert refused(commit(house.client, files(path)), "NX506")


@pytest.mark.parametrize(
    "path",
    ["s3://lake/platform/history/t", "s3://lake/**", "s3://lake/platform", "s3://lake/*/h*/t"],
)
def test_no_keys_open_the_buckets_of_the_platform(house: House, path: str) -> None:
    rule(house, '[[files]]\npath = "s3://lake/**"\nbranches = ["*"]\nwrite = true\n')
    table = Files(name="f", path=path, format=TableFormat(kind="delta"))

    assert refused(commit(house.client, files(path, **KEYS)), "NX506")
    assert refused(commit(house.client, told_to(table, how="incremental")), "NX506")


@pytest.mark.parametrize("servers", ["", "localhost:1", "broker.example.com:9092"])
@pytest.mark.parametrize("name", [*INTERNAL, *PATTERNS])
def test_no_source_and_no_sink_names_an_internal_topic_or_a_pattern(
    house: House, name: str, servers: str
) -> None:
    rule(house, '[[topics]]\nname = "*"\nbranches = ["*"]\nwrite = true\n')
    read = commit(house.client, read_from(topic(name, servers)))
    told = commit(house.client, told_to(topic(name, servers), cdc=Cdc.DEBEZIUM))

    assert refused(read, "NX506") if name else read.status_code == 400
    assert refused(told, "NX506") if name else told.status_code == 400


def test_a_sink_into_a_topic_needs_a_rule(house: House) -> None:
    wanted = told_to(topic("told"), cdc=Cdc.DEBEZIUM)
    rule(house, '[[topics]]\nname = "told"\nbranches = ["*"]\n')
    without = commit(house.client, wanted)
    rule(house, '[[topics]]\nname = "told"\nbranches = ["main"]\nwrite = true\n')

    assert refused(without, "NX507", "write = true")
    assert commit(house.client, wanted).status_code == 200


def test_a_sink_into_files_needs_a_rule(house: House) -> None:
    table = Files(name="f", path="s3://out/t", format=TableFormat(kind="delta"))
    without = commit(house.client, told_to(table, how="incremental"))
    rule(house, '[[files]]\npath = "s3://out/**"\nbranches = ["*"]\nwrite = true\n')

    assert refused(without, "NX507", "s3://out/t")
    assert commit(house.client, told_to(table, how="incremental")).status_code == 200


def test_the_platforms_own_keys_open_no_bucket_that_no_rule_grants(house: House) -> None:
    without = commit(house.client, files("s3://theirs/a.csv"))
    own = commit(house.client, files("s3://theirs/a.csv", **KEYS))
    rule(house, '[[files]]\npath = "s3://theirs/**"\nbranches = ["*"]\n')

    assert refused(without, "NX507", "s3://theirs/a.csv")
    assert own.status_code == 200
    assert commit(house.client, files("s3://theirs/a.csv")).status_code == 200


def test_with_rules_for_files_only_what_they_grant_to_the_branch_is_read(house: House) -> None:
    rule(house, '[[files]]\npath = "a/**"\nbranches = ["dev*"]\n')

    assert refused(commit(house.client, files("a/b.csv")), "NX507", "a/b.csv")
    assert refused(commit(house.client, files("c.csv")), "NX507", "c.csv")
    rule(house, '[[files]]\npath = "a/**"\nbranches = ["main"]\n')
    assert commit(house.client, files("a/b.csv")).status_code == 200


def test_a_broken_policy_lets_no_commit_in(house: House) -> None:
    rule(house, "[[files]]\npath = '/'\n[[topic]]\n")

    answer = commit(house.client, files("c.csv"))

    assert answer.status_code == 400
    assert [one["code"] for one in answer.json()["errors"]] == ["NX973"]
    assert "lacks `branches`" in answer.text
    assert "unknown table `topic`" in answer.text


def test_deployed_definitions_continue_after_a_rule_is_removed(
    tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str
) -> None:
    root = tmp_path_factory.mktemp("kept")
    settings = settings_at(root / "home", dsn=ledger_dsn, kafka=NOBODY)
    with house_at(attrs.evolve(settings, files_root=root), adapters=in_memory()) as house:
        serve(house, read_from(WebhookEndpoint(webhook="w", endpoint="e")))
        rule(house, '[[endpoints]]\nname = "w/*"\nbranches = ["dev"]\n')

        same = commit(house.client, read_from(WebhookEndpoint(webhook="w", endpoint="e")))
        endpoint = WebhookEndpoint(webhook="w", endpoint="f")
        other = commit(house.client, read_from(endpoint, name="More"))

    assert same.status_code == 200
    assert refused(other, "NX507", "w/f")
