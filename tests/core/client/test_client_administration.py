"""Branches, secrets, erasure and overviews: the calls of a client that are about a whole branch."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import attrs
import pandas as pd
import pytest

from narthex._formats.wire import decode_commit
from narthex._server_calls.references import dataset_name
from narthex._server_calls.transport import Parameters
from narthex.client import Client, Response
from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit, Refused
from narthex.featuresets import featureset
from narthex.lib import meta


@meta(owner="a@b.co")
@source(Webhook("shop").endpoint("users"), disorder="1h", cdc="upsert")
@dataset(index=True)
class Users:
    uid: int = field(key=True, erase_key=True)
    age: int
    at: datetime


@meta(owner="a@b.co")
@featureset
class Person:
    uid: int


@attrs.define
class Calls:
    """Answers calls with prepared answers, and records them."""

    branch: str = "main"
    made: list[tuple[str, str, str, Any]] = attrs.field(factory=list)
    answers: dict[str, Any] = attrs.field(factory=dict)

    def _answer(self, verb: str, path: str, body: Any) -> Response:
        self.made.append((verb, path, self.branch, body))
        found = self.answers.get(path, {})
        if isinstance(found, Exception):
            raise found
        return Response(status_code=200, headers={}, body=found)

    def read(self, path: str, parameters: Parameters | None = None) -> Response:
        return self._answer("GET", path, dict(parameters or {}))

    def send(
        self,
        path: str,
        body: Any = None,
        *,
        parameters: Parameters | None = None,
        key: str = "",
        verb: str = "POST",
    ) -> Response:
        del parameters, key
        return self._answer(verb, path, body)

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def client(calls: Calls) -> Iterator[Client]:
    made = Client("http://127.0.0.1:1", "t", caller=calls)
    yield made
    made.close()


def test_a_branch_is_checked_out_once_it_is_there(client: Client, calls: Calls) -> None:
    assert client.init_branch("dev").status_code == 200
    assert client.branch() == "dev"
    client.clone_branch("dev-2", "dev")
    assert client.branch() == "dev-2"

    assert calls.made == [
        ("POST", "init", "dev", {}),
        ("POST", "init", "dev-2", {"clone_from": "dev"}),
    ]


@pytest.mark.parametrize("make", ["init", "clone"])
def test_a_branch_that_was_not_made_is_not_checked_out(
    client: Client, calls: Calls, make: str
) -> None:
    calls.answers["init"] = Refused("branch `dev` already exists", status_code=409)

    with pytest.raises(Refused, match="already exists"):
        client.init_branch("dev") if make == "init" else client.clone_branch("dev", "main")

    assert client.branch() == "main"


@pytest.mark.parametrize("name", ["", "a b", "a?b", "ä", "a\nb"])
def test_an_invalid_branch_name_is_refused_before_the_call(
    client: Client, calls: Calls, name: str
) -> None:
    with pytest.raises(ArgumentsUnfit):
        client.init_branch(name)
    with pytest.raises(ArgumentsUnfit):
        client.clone_branch(name, "main")

    assert calls.made == []


def test_after_its_deletion_a_branch_is_not_checked_out(client: Client, calls: Calls) -> None:
    client.checkout("dev")

    client.delete_branch("other")
    assert client.branch() == "dev"
    client.delete_branch("dev")
    assert client.branch() == "main"
    assert [branch for _, _, branch, _ in calls.made] == ["other", "dev"]


def test_a_branch_is_brought_back_without_being_checked_out(client: Client, calls: Calls) -> None:
    client.undelete_branch("dev")

    assert client.branch() == "main"
    assert [(path, branch) for _, path, branch, _ in calls.made] == [("undelete", "dev")]


def test_branches_are_listed(client: Client, calls: Calls) -> None:
    calls.answers["branch/list"] = {"branches": [{"name": "main"}, {"name": "dev"}]}
    assert client.list_branches() == ["main", "dev"]

    calls.answers["branch/list"] = {}
    with pytest.raises(AnswerNotUnderstood):
        client.list_branches()


def test_checkout_creates_a_missing_branch_on_request(client: Client, calls: Calls) -> None:
    calls.answers["branch/list"] = {"branches": [{"name": "main"}, {"name": "dev"}]}

    client.checkout("dev", init=True)
    client.checkout("new", init=True)
    client.checkout("nowhere")

    assert [(path, branch) for _, path, branch, _ in calls.made] == [
        ("branch/list", "main"),
        ("branch/list", "dev"),
        ("init", "new"),
    ]
    assert client.branch() == "nowhere"


def test_secrets_are_stored_changed_read_and_deleted(client: Client, calls: Calls) -> None:
    calls.answers["secret/chat"] = {"value": "xyz"}

    client.add_secret("chat", "xyz")
    client.update_secret("chat", "abc")
    assert client.get_secret("chat") == "xyz"
    client.delete_secret("chat")

    assert [(verb, path, body) for verb, path, _, body in calls.made] == [
        ("POST", "secret/chat", {"value": "xyz"}),
        ("PATCH", "secret/chat", {"value": "abc"}),
        ("GET", "secret/chat", {}),
        ("DELETE", "secret/chat", None),
    ]


def test_a_secret_does_not_travel_in_clear(calls: Calls) -> None:
    over = Client("http://example.com", "t", caller=calls)
    secure = Client("https://example.com", "t", caller=calls)

    for call in (
        lambda: over.add_secret("chat", "hunter2"),
        lambda: over.update_secret("chat", "hunter2"),
        lambda: over.get_secret("chat"),
    ):
        with pytest.raises(ArgumentsUnfit) as raised:
            call()
        assert "in clear" in raised.value.message
        assert "hunter2" not in str(raised.value)
    assert calls.made == []
    secure.add_secret("chat", "xyz")
    assert len(calls.made) == 1


@pytest.mark.parametrize("name", ["", "/a", "a//b", "a b", "a?b", "../a"])
def test_an_invalid_secret_name_is_refused(client: Client, name: str) -> None:
    with pytest.raises(ArgumentsUnfit):
        client.add_secret(name, "x")


def test_rows_are_erased_by_their_erase_keys(client: Client, calls: Calls) -> None:
    client.erase(Users, pd.DataFrame({"uid": [1, 2]}))
    client.erase("Users", pd.DataFrame({"whatever": [1]}))

    assert calls.made[0] == (
        "POST",
        "dataset/Users/erase",
        "main",
        {"erase_keys": [{"uid": 1}, {"uid": 2}]},
    )
    assert len(calls.made) == 2


def _keyed() -> Dataset:
    @dataset
    class Keyed:
        uid: int = field(key=True)
        at: datetime

    return Keyed


@pytest.mark.parametrize(
    ("of", "columns", "says"),
    [
        (Users, {"age": [1]}, "`Users` is erased by `uid`; the frame has `age`"),
        (Users, {"uid": [1], "age": [1]}, "the frame has `uid`, `age`"),
        (Users, {}, "the frame has none"),
        (_keyed(), {"uid": [1]}, "`Keyed` is erased by none"),
    ],
)
def test_other_keys_than_the_erase_keys_are_refused(
    client: Client, calls: Calls, of: Dataset, columns: dict[str, list[int]], says: str
) -> None:
    with pytest.raises(ArgumentsUnfit) as raised:
        client.erase(of, pd.DataFrame(columns))

    assert says in raised.value.message
    assert calls.made == []


def test_lineage_and_xray_return_the_servers_answer(client: Client, calls: Calls) -> None:
    calls.answers |= {"lineage": {"edges": []}, "xray": {"Users": {}}}

    assert client.lineage() == {"edges": []}
    assert client.xray([Users, "Orders"], [Person], fields=["backlog"]) == {"Users": {}}
    assert client.xray() == {"Users": {}}
    assert [body for _, path, _, body in calls.made if path == "xray"] == [
        {"datasets": "Users,Orders", "featuresets": "Person", "properties": "backlog"},
        {},
    ]


def test_added_entities_go_with_the_next_commit(client: Client, calls: Calls) -> None:
    calls.answers["commit"] = {"commit_id": "c1", "summary": []}
    client.add(Users)
    client.add(Person)

    client.commit("seen", preview=True)
    client.commit("first", wait=False)
    client.commit("second", wait=False)

    sent = [decode_commit(body).definitions for _, _, _, body in calls.made]
    assert [
        [*(dataset.name for dataset in d.datasets), *(f.name for f in d.featuresets)] for d in sent
    ] == [
        ["Users", "Person"],
        ["Users", "Person"],
        [],
    ]


def test_an_entity_waits_once_and_other_things_do_not(client: Client) -> None:
    client.add(Users)

    with pytest.raises(ArgumentsUnfit, match="waits for the next commit already"):
        client.add(Users)
    with pytest.raises(ArgumentsUnfit, match="neither a dataset nor a featureset"):
        client.add("Users")  # type: ignore[arg-type]


def test_a_class_that_is_not_a_dataset_is_refused() -> None:
    class Orders:
        pass

    with pytest.raises(ArgumentsUnfit, match="`Orders` is not a dataset"):
        dataset_name(Orders)
