"""The console shows what the API answers: whole, escaped, and only to whom may read it."""

import datetime as dt
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin
from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa
from fastapi import Response
from typing_extensions import override

from narthex._drift import FeatureKind, summary_of
from narthex._ir import Severity
from narthex_ledger import (
    Desired,
    DriftView,
    ErasureRequest,
    HourSummary,
    Phase,
    ReferenceKind,
    ShardReport,
    TenantId,
)
from narthex_server.console.list_parts import part_of
from narthex_server.console.rendering import (
    LINEAGE_SCRIPT,
    PAGES,
    SEARCH_SCRIPT,
    PageLocation,
    page,
)
from narthex_server.security.browser_sessions import COOKIE
from tests.cases import every
from tests.server.calling import TestClient
from tests.server.commits.test_plan import raised
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.driving import SLOTS, create_all, serve, shown, step
from tests.server.shop import payload, shop_definitions

pytestmark = pytest.mark.postgres

ORIGIN = "http://testserver"
HOSTILE = """"'><script>alert(1)</script><img src=x onerror="alert(2)">"""

UNDECIDED: dict[str, Any] = {
    "refusal": HOSTILE,
    "decision": "buttons",
    "shown_sha256": HOSTILE,
}
"""The values of the page of a commit for the person who decides about it."""

NO_BROKER = "datasets"
OF_DATASET = ("/console/datasets/Orders", "/console/datasets/Spend")
"""The page that also queries the broker, which does not run here."""


ONE_BRANCH: dict[str, Any] = {"branches": ["main"], "whole": False}


class ParsedPage(HTMLParser):
    """The parsed contents of a page: its text, by row of its tables, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.rows: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._is_in_row = False
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append("")
            self._is_in_row = True

    @override
    def handle_endtag(self, tag: str) -> None:
        self._is_in_row = self._is_in_row and tag != "tr"

    @override
    def handle_data(self, data: str) -> None:
        words = " ".join(data.split())
        if words:
            self.text += f"{words} "
        if words and self._is_in_row:
            self.rows[-1] += f"{words} "

    def row(self, *parts: str) -> str:
        (found,) = [row for row in self.rows if all(part in row for part in parts)]
        return found

    def links(self) -> list[str]:
        found = [str(one["href"]) for tag, one in self.tags if tag == "a"]
        return [link for link in found if not link.startswith("#")]


def look(client: TestClient, path: str, *, status: int = 200, **headers: str) -> ParsedPage:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status, answer.text[-2000:]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return ParsedPage(answer.text)


@attrs.frozen(kw_only=True)
class ConsoleCalls:
    """An installation in which several things have happened.

    Attributes:
        served: The commit that readers of `main` and of its clone `dev` read.
        waiting: The one after it on `main`, which is protected: its jobs have not caught up.
    """

    house: House
    served: str
    waiting: str

    @property
    def client(self) -> TestClient:
        return self.house.client


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[ConsoleCalls]:
    home = tmp_path_factory.mktemp("told")
    settings = settings_at(home, dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        served = serve(house, shop_definitions())
        post(house, "init", {"clone_from": "main"}, **{"x-narthex-branch": "dev"})
        post(house, "branch/protect", {"protected": True})
        accepted = house.client.post(
            "/api/v1/commit",
            content=payload(raised("Spend"), message=HOSTILE),
            headers={"x-narthex-actor": HOSTILE},
        )
        waiting = str(accepted.json()["commit_id"])
        create_all(house.client, waiting)
        for name in ("ready", "commit"):
            step(house.client, waiting, name)
        report_running(house)
        audit = {"dataset": HOSTILE, "from_us": None, "to_us": 0, "success": False}
        post(house, "audits", audit | {"result": {"rows": 7, "failed": [HOSTILE]}})
        house.ledger.drift.record([drifted()])
        house.ledger.feature_summaries.replace(
            [
                HourSummary(
                    branch="main",
                    feature="Users.country",
                    hour=dt.datetime.now(tz=dt.UTC).replace(minute=0, second=0, microsecond=0),
                    summary=summary_of([HOSTILE, HOSTILE, None], FeatureKind.CATEGORY),
                )
            ]
        )
        house.ledger.erasures.request(requested(house.services.tenant))
        shop = {"host": "db.shop.example", "db_name": HOSTILE}
        secrets = {"username": "shop_user", "password": "shop_password"}
        stored = {"kind": "Postgres", "arguments": shop, "secrets": secrets}
        answer = house.client.put("/api/v1/connections/shop", json=stored)
        assert answer.is_success, answer.text
        yield ConsoleCalls(house=house, served=served, waiting=waiting)


def requested(tenant: TenantId) -> ErasureRequest:
    """Return the request to erase one key; nothing carries it out here."""
    return ErasureRequest(
        erasure_id=UUID(int=1),
        tenant=tenant,
        branch="main",
        dataset="Users",
        fields=("user",),
        actor=HOSTILE,
        request_sha256=bytes(32),
        digests=(bytes(32),),
        sealed={"sealed": "unreadable"},
        sources=(),
    )


def drifted() -> DriftView:
    """Return a feature that has drifted, with a hostile name."""
    noon = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    metric: dict[str, Any] = {"value": 0.3114, "severity": "critical"}
    return DriftView(
        branch="main",
        feature=HOSTILE,
        reference_kind=ReferenceKind.WINDOW,
        reference=HOSTILE,
        from_at=noon,
        to_at=noon + dt.timedelta(hours=1),
        rows=1200,
        reference_rows=5000,
        is_compared=True,
        severity=Severity.CRITICAL,
        metrics={"psi": metric, "mean_shift": metric | {"severity": None}},
    )


def post(house: House, path: str, body: Any, **headers: str) -> None:
    answer = house.client.post(f"/api/v1/{path}", json=body, headers=headers)
    assert answer.is_success, answer.text


def report_running(house: House) -> None:
    """Report all jobs as a supervisor does whose user code fails."""
    epochs = {one.slot: one.epoch for one in house.ledger.slots.claim("tests", range(SLOTS))}
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[shard.slot],
            shard=shard.shard,
            phase=Phase.RUNNING,
            lag_ms=1234,
            progress={"behind": 56789, "late": 3, "error": HOSTILE},
        )
        for job in house.ledger.jobs.all()
        for shard in job.shards
        if job.desired is Desired.RUNNING
    ]
    assert house.ledger.jobs.report(reports) == ()


def paths_of(told: ConsoleCalls) -> list[str]:
    """Name every page, those that ask the broker last."""
    pages = ["/console", *(f"/console/{name}" for name in PAGES)]
    commits = [f"/console/commits/{told.served}", f"/console/commits/{told.waiting}"]
    others = ["/console/features/Buyer", "/console/search?q=user", "/console/unread"]
    return [*pages, *commits, *others, *OF_DATASET]


def test_commits_are_listed_with_state_and_author(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console")

    assert "FINALIZED DONE platform" in seen.row(told.served[:8])
    assert "COMMITTED PENDING" in seen.row(told.waiting[:8])
    assert len(seen.rows) == 1 + len(told.client.get("/api/v1/commits").json()["commits"])


def test_a_commit_page_shows_blockers_changes_and_causes(told: ConsoleCalls) -> None:
    seen = look(told.client, f"/console/commits/{told.waiting}")

    events = shown(told.client, told.waiting)["events"]
    assert "Spend (stream_job): not backfilled" in seen.text.partition("Waiting for")[2]
    assert "a person, who approves it" in seen.text
    assert "approval needed" in seen.text
    assert "changed version `1` `2` Buyer.orders_1h, Buyer.spent" in seen.row("dataset `Spend` ")
    assert seen.row("index of Spend index created")
    assert seen.row("log of Orders kafka_topic shared ", "main", "dev")
    plan = told.client.get(f"/api/v1/commits/{told.waiting}/plan").json()["plan"]
    planned = [(one, "created") for one in plan["create"]]
    planned += [(one, "shared") for one in plan["share"]]
    planned += [(one, "released") for one in plan["release"]]
    for one, what in planned:
        begins = f"{one['label']} {one['kind']} {what} "
        assert any(row.startswith(begins) for row in seen.rows), begins
    assert seen.row("dataset/Spend/index index live DONE")
    assert len(events) >= 10
    assert [row.split()[2] for row in seen.rows[-len(events) :]] == [
        event["transition"] for event in events
    ]


def test_a_commit_that_has_ended_waits_for_nothing(told: ConsoleCalls) -> None:
    seen = look(told.client, f"/console/commits/{told.served}?live=1")

    assert "Waiting for" not in seen.text
    assert "approval not needed" in seen.text
    assert not [tag for tag, found in seen.tags if found.get("http-equiv")]


def test_a_page_reloads_only_in_live_mode(told: ConsoleCalls) -> None:
    still = look(told.client, f"/console/commits/{told.waiting}")
    live = look(told.client, f"/console/commits/{told.waiting}?live=1")

    assert not [found for _, found in still.tags if found.get("http-equiv")]
    assert [found["content"] for _, found in live.tags if found.get("http-equiv")] == ["5"]


def test_branches_are_listed_with_head_and_serving_commit(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/branches")

    assert f"active {told.waiting[:8]} number 2 {told.served[:8]} number 1 yes" in seen.row("main")
    assert "active" in seen.row("dev")


def test_assets_are_listed_with_their_branches_and_commits(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/assets")

    kept = seen.row("dataset/Orders/log", "kafka_topic")
    assert f"main (head) {told.waiting[:8]}" in kept
    assert f"main (serving) {told.served[:8]}" in kept
    assert "dev (head)" in kept
    new, old = sorted((r for r in seen.rows if " dataset/Spend/index index " in r), key=len)
    assert "dev" not in new
    assert "dev (serving)" in old
    assert f"main (history) {told.served[:8]} until" in old


def test_assets_come_in_pages_that_follow_each_other(told: ConsoleCalls) -> None:
    found = told.client.get("/api/v1/assets", params={"limit": 5}).json()
    more = told.client.get("/api/v1/assets", params={"limit": 1000, "after": found["next"]}).json()

    ids = [one["asset_id"] for one in found["assets"] + more["assets"]]
    whole = told.client.get("/api/v1/assets", params={"limit": 1000}).json()
    assert len(found["assets"]) == 5
    assert more["next"] is None
    assert ids == [one["asset_id"] for one in whole["assets"]] == sorted(ids)


def test_jobs_are_listed_with_holder_and_progress(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/jobs?live=1")

    row = next(row for row in seen.rows if row.startswith("Spend.by_user ") and "56,789" in row)
    assert "running real_time 56,789 1,234 3 tests" in row


def listed_in(seen: ParsedPage) -> list[str]:
    """Return the rows of the list of all entities of a lineage."""
    return seen.rows[seen.rows.index("entity kind status inputs ") + 1 :]


def test_lineage_is_drawn_and_listed(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/lineage?features=1")
    part = look(told.client, "/console/lineage?of=Buyer.country")
    brief = look(told.client, "/console/lineage")
    of_buyer = look(told.client, "/console/lineage?of=Buyer&features=1")

    boxes = [found for tag, found in seen.tags if tag == "a" and "data-number" in found]
    nodes = told.client.get("/api/v1/lineage").json()["nodes"]
    listed = listed_in(seen)
    assert len(boxes) == len(nodes) == len(listed)
    (rank,) = (row for row in listed if row.startswith("Buyer.rank "))
    assert "feature ✕ failing Buyer.spent " in rank
    assert {row.split()[0] for row in of_buyer.rows} >= {"Buyer.rank", "Buyer.country", "Users"}
    assert any(row.startswith("Buyer featureset ") for row in listed_in(brief))
    assert not [row for row in brief.rows if "Buyer." in row]
    assert [row.split()[0] for row in listed_in(part)] == [
        "webhook:shop/users",
        "Users",
        "Buyer.user",
        "Buyer.country",
    ]


def test_datasets_and_features_are_shown_while_the_broker_is_not_there(told: ConsoleCalls) -> None:
    datasets = look(told.client, "/console/datasets")
    features = look(told.client, "/console/features")

    assert "user: str, country: str, since: datetime" in datasets.row("Users@1")
    assert "Spend.spent" in features.row("spent", "float")


def test_a_dataset_has_a_page_with_its_columns_inputs_and_jobs(told: ConsoleCalls) -> None:
    orders = look(told.client, "/console/datasets/Orders")
    spend = look(told.client, "/console/datasets/Spend")

    assert "A purchase." in orders.text
    assert "owner shop@narthex.dev" in orders.text
    assert "inputs webhook:shop/orders source used by Spend dataset" in orders.text
    assert "looked up by nothing: it has no index" in orders.text
    assert "at datetime event time" in orders.row("event time")
    assert "user str key" in spend.row("key")
    assert "inputs Orders dataset used by Buyer.orders_1h feature" in spend.text
    assert "index_feed running 56,789 1,234" in spend.row("index_feed", "running")
    absent = look(told.client, "/console/datasets/Nothing", status=404)
    assert "`Nothing` not found" in absent.text


def test_a_featureset_has_a_page_with_what_its_features_come_from(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/features/Buyer")
    links = [urljoin(f"{ORIGIN}/console/features/Buyer", link) for link in seen.links()]

    assert "Spend.spent" in seen.row("spent", "float")
    assert "inputs Spend dataset , Users dataset" in seen.text
    assert f"{ORIGIN}/console/datasets/Spend?branch=main" in links
    look(told.client, "/console/features/Nothing", status=404)


def test_pages_show_the_definition_of_an_entity_as_python(told: ConsoleCalls) -> None:
    spend = look(told.client, "/console/datasets/Spend")
    buyer = look(told.client, "/console/features/Buyer")
    rank = look(told.client, "/console/features/Buyer/rank")
    given = look(told.client, "/console/features/Buyer/user")

    def code(seen: ParsedPage) -> str:
        return " ".join(seen.text.partition(" Definition ")[2].split())

    assert "class Spend :" in code(spend)
    assert '. groupby ( "user" )' in code(spend)
    assert "topic" in spend.row("dataset/Spend/log")
    assert "country : Optional [ str ] = feature ( Users . country )" in code(buyer)
    assert "def ranked ( cls , ts , spent ):" in code(rank)
    assert "inputs Buyer.spent feature used by nothing" in rank.text
    assert "Spend" in rank.row("Spend")
    assert "None: it is given with the query" in given.text
    look(told.client, "/console/features/Buyer/nothing", status=404)


def test_the_page_of_a_feature_reads_the_jobs_of_its_datasets_only(told: ConsoleCalls) -> None:
    given = shards_read(told, "/console/features/Buyer/user")
    looked_up = shards_read(told, "/console/features/Buyer/country")
    listed = shards_read(told, "/console/jobs")

    assert given == 0
    assert 0 < looked_up < listed


def shards_read(told: ConsoleCalls, path: str) -> int:
    """Return how many shards of jobs the ledger returns for a page."""
    read: list[int] = []

    def count(_connection: object, cursor: Any, statement: str, *_: object) -> None:
        if "FROM job_shard JOIN slot_lease" in " ".join(statement.split()):
            read.append(cursor.rowcount)

    sa.event.listen(sa.Engine, "after_cursor_execute", count)
    try:
        look(told.client, path)
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", count)
    return sum(read)


def test_sources_and_sinks_have_pages(told: ConsoleCalls) -> None:
    listed = look(told.client, "/console/sources")
    one = look(told.client, "/console/sources?of=webhook:shop/orders")
    sinks = look(told.client, "/console/sinks")

    assert "webhook:shop/orders Webhook Orders" in listed.row("orders")
    assert "connector Webhook webhook shop endpoint orders" in one.text
    assert "Read by Orders disorder 1d cdc append" in one.text
    assert "stream_job" in look(told.client, "/console/jobs").row("Orders ←")
    assert "Orders ← webhook:shop/orders" in one.row("Orders ←")
    assert "No dataset of this branch is written to a sink. @sink above" in sinks.text
    look(told.client, "/console/sources?of=webhook:nothing", status=404)
    look(told.client, "/console/sinks?of=nothing", status=404)


def test_links_of_entities_lead_to_their_pages(told: ConsoleCalls) -> None:
    origin = f"{ORIGIN}/console/"

    def links(path: str) -> set[str]:
        found = look(told.client, f"/console/{path}").links()
        return {urljoin(f"{origin}{path}", link).removeprefix(origin) for link in found}

    assert {
        "datasets/Spend?branch=main",
        "features/Buyer/rank?branch=main",
        "features/Buyer?branch=main",
    } <= links("search?q=sp") | links("search?q=buyer")
    assert "sources?branch=main&of=webhook%3Ashop%2Forders" in links("datasets/Orders")
    assert "features/Buyer/orders_1h?branch=main" in links("datasets/Spend")
    assert any(one.startswith("datasets/%22") for one in links("audits"))


@pytest.mark.parametrize("path", ["lineage", "datasets", "features", "search?q=a", "sources"])
def test_a_branch_without_a_commit_names_the_command_that_deploys(
    tmp_path: Path, ledger_dsn: str, path: str
) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        seen = look(house.client, f"/console/{path}")
        of_one = look(house.client, "/console/datasets/Orders", status=404)

    for one in (seen, of_one):
        assert "Nothing is deployed on main yet" in one.text
        assert "narthex commit FILE --branch main deploys" in one.text


@every(
    ("text", "found"),
    [
        ("spen", ["Buyer.spent", "Spend"]),
        ("BUYER country", ["Buyer.country"]),
        ("purchase", ["Orders"]),
        ("shop@narthex.dev purchase", ["Orders"]),
        ("webhook:shop/us", ["webhook:shop/users"]),
        ("zebra", []),
        ("", []),
    ],
)
def test_entities_are_found_by_words(told: ConsoleCalls, text: str, found: list[str]) -> None:
    answer = told.client.get("/api/v1/search", params={"q": text}).json()["found"]
    seen = look(told.client, f"/console/search?{urlencode({'q': text})}")

    assert [one["name"] for one in answer] == found
    assert all(name in seen.text for name in found)


def test_rows_are_shown_with_nulls_and_nested_values() -> None:
    here = PageLocation(path="/console/datasets/Users/rows", branch="main")
    rows = [{"user": HOSTILE, "age": None, "tags": ["a", HOSTILE]}]
    text = bytes(page("rows", here, {"rows": rows, "dataset": "Users"}).body).decode()

    assert not runs_anything(text)
    assert "null" in ParsedPage(text).rows[1]


def test_a_page_of_an_empty_branch_is_html(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/features?branch=nowhere", status=404)
    unknown = look(told.client, f"/console/commits/{'0' * 8}-0000-8000-8000-{'0' * 12}", status=404)
    wrong = look(told.client, "/console/commits/nothing", status=400)

    assert "there is no branch `nowhere`" in seen.text
    assert "there is no commit" in unknown.text
    assert "commit_id" in wrong.text


def test_each_page_is_the_same_as_the_json_that_it_links_to(told: ConsoleCalls) -> None:
    for path in paths_of(told):
        if NO_BROKER in path:
            continue
        seen = look(told.client, path)
        twins = [link for link in seen.links() if "api/v1/" in link]
        assert twins, path
        for twin in twins:
            answer = told.client.get(urljoin(ORIGIN + path, twin))
            assert answer.status_code == 200, (path, twin, answer.text)
            assert answer.headers["content-type"] == "application/json"


def test_every_link_of_a_page_leads_to_a_page_below_any_prefix(told: ConsoleCalls) -> None:
    """Inside Airflow the same pages are below `/narthex`."""
    for path in paths_of(told):
        if NO_BROKER in path:
            continue
        for link in look(told.client, path).links():
            address = urljoin(f"{ORIGIN}/narthex{path}", link)
            assert address.startswith(f"{ORIGIN}/narthex/"), (path, link)


def test_a_page_can_load_nothing_from_elsewhere_and_run_nothing(told: ConsoleCalls) -> None:
    for path in paths_of(told):
        answer = told.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        own = [SEARCH_SCRIPT, *([LINEAGE_SCRIPT] if path == "/console/lineage" else [])]
        scripts = re.findall(r"<script>(.*?)</script>", answer.text, flags=re.DOTALL)
        assert scripts == [one.text for one in own]
        assert policy.endswith(f"; script-src {' '.join(one.source for one in own)}")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        seen = ParsedPage(without_own_scripts(answer.text))
        assert not {tag for tag, _ in seen.tags} & {"script", "style", "img", "iframe", "object"}
        assert not [found for _, found in seen.tags if "style" in found]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text


def test_texts_of_users_are_escaped(told: ConsoleCalls) -> None:
    for path in paths_of(told):
        text = told.client.get(path).text
        assert not runs_anything(text), path
    for path in (
        "/console",
        f"/console/commits/{told.waiting}",
        "/console/jobs",
        "/console/audits",
        "/console/drift",
        "/console/erasures",
        "/console/connections",
    ):
        assert "<script>alert(1)</script>" in look(told.client, path).text, path


def without_own_scripts(text: str) -> str:
    for script in (SEARCH_SCRIPT, LINEAGE_SCRIPT):
        text = text.replace(f"<script>{script.text}</script>", "")
    return text


def runs_anything(text: str) -> bool:
    """Return whether a page runs anything but the scripts of ours."""
    text = without_own_scripts(text)
    return any(
        tag in {"script", "img"} or any(name.startswith("on") for name in found)
        for tag, found in ParsedPage(text).tags
    )


def poisoned(value: Any) -> Any:
    """Make every text of an answer hostile, except instants."""
    match value:
        case str():
            return value if re.match(r"\d{4}-\d\d-\d\dT", value) else value + HOSTILE
        case list():
            return [poisoned(one) for one in value]
        case dict():
            return {name: poisoned(one) for name, one in value.items()}
        case _:
            return value


def test_drift_is_listed_with_the_metrics_beyond_a_threshold(told: ConsoleCalls) -> None:
    row = look(told.client, "/console/drift").row("psi 0.311")

    assert "failed" in row
    assert "mean_shift" not in row
    assert "2026-05-01 12:00" in row


def test_statistics_of_the_columns_of_a_dataset_are_shown(told: ConsoleCalls) -> None:
    seen = look(told.client, "/console/datasets/Users/statistics")

    assert "country 3 1" in seen.row("Users.country")
    assert not runs_anything(seen.text)
    empty = look(told.client, "/console/datasets/Spend/statistics")
    assert "No row arrived in these hours" in empty.text


def certified() -> dict[str, Any]:
    """Return an erasure that has ended, as the API answers it."""
    at = "2026-05-01T12:00:00+00:00"
    certificate = {
        "searched_at": at,
        "found": 0,
        "searched": [{"store": "topics", "items": 1200, "bytes": 9}],
        "destroyed": ["nx_log_1"],
        "kept": [{"store": "table audit_log of the ledger", "items": 1}],
        "sinks": [{"target": "kafka:b/t", "dataset": "Told", "to_do": "delete there"}],
        "not_reached": ["log files of processes"],
    }
    return {
        "erasure_id": "erasure",
        "dataset": "Users",
        "branch": "main",
        "actor": "op",
        "state": "certified",
        "erased_keys": 1,
        "waits_for": "",
        "requested_at": at,
        "finished_at": at,
        "certificate": certificate,
        "signature": "ab01",
    }


def test_a_dataset_shows_its_audits_however_many_others_have(told: ConsoleCalls) -> None:
    audit = {"dataset": "Users", "from_us": None, "to_us": 0, "success": True}
    post(told.house, "audits", audit | {"result": {"rows": 3141}})
    for branch in ("main", "dev"):
        of = "Others" if branch == "main" else "Users"
        for _ in range(100):
            told.client.post(
                "/api/v1/audits",
                json=audit | {"dataset": of, "result": {"rows": 1}},
                headers={"x-narthex-branch": branch},
            )

    listed = told.client.get("/api/v1/audits?dataset=Users&limit=101").json()["audits"]

    assert {one["dataset"] for one in listed} == {"Users"}
    assert (len(listed), listed[-1]["rows"]) == (101, 3141)
    assert "3,141" in look(told.client, "/console/datasets/Users").text


def test_lists_show_the_chosen_branch_unless_all_are_asked_for(told: ConsoleCalls) -> None:
    audit = {"dataset": "Nowhere", "from_us": None, "to_us": 0, "success": True, "result": {}}
    dev = {"x-narthex-branch": "dev"}
    told.client.post("/api/v1/audits", json=audit, headers=dev)

    def seen(path: str) -> str:
        return look(told.client, f"/console/{path}").text

    assert "Nowhere" not in seen("audits")
    assert "Quality audits of main" in seen("audits")
    assert "Nowhere" in seen("audits?branch=dev")
    assert "Nowhere" in seen("audits?all=1")
    assert "psi 0.311" not in seen("drift?branch=dev")
    assert "psi 0.311" in seen("drift?branch=dev&all=1")
    assert "No alert fires" in seen("alerts?branch=dev")
    assert "Spend.by_user" in seen("jobs")
    assert seen("jobs?all=1").count("stream_job") > seen("jobs?branch=dev").count("stream_job") > 0


def test_an_erasure_shows_its_state(told: ConsoleCalls) -> None:
    listed = look(told.client, "/console/erasures")
    (link,) = [one for one in listed.links() if "console/erasures/" in one]

    seen = look(told.client, urljoin(f"{ORIGIN}/console/erasures", link))

    assert "requested Users main 1" in listed.row("Users")
    assert "state requested" in seen.text
    assert "Certificate" not in seen.text


def test_a_certificate_is_shown_with_what_no_search_covers() -> None:
    here = PageLocation(path="/console/erasures/erasure", branch="main")
    seen = ParsedPage(bytes(page("erasure", here, {"erasure": certified()}).body).decode())

    assert "found 0 searched topics: 1,200 items destroyed nx_log_1" in seen.text
    assert "1 in table audit_log of the ledger" in seen.text
    assert "not erased kafka:b/t has rows of Told: delete there" in seen.text
    assert "not searched log files of processes signature ab01" in seen.text


def test_connections_are_listed_with_the_names_of_their_secrets(told: ConsoleCalls) -> None:
    row = look(told.client, "/console/connections").row("shop_password")

    assert "shop Postgres host=db.shop.example" in row
    assert "username from secret shop_user password from secret shop_password *" in row


def test_erasures_and_connections_are_for_tokens_of_the_installation(told: ConsoleCalls) -> None:
    reader = {"x-narthex-scope": "read:definitions"}

    look(told.client, "/console/erasures", status=403, **reader)
    look(told.client, "/console/connections", status=403, **reader)


def test_a_long_list_is_cut_until_all_of_it_is_asked_for(told: ConsoleCalls) -> None:
    here = PageLocation(path="/console/commit", branch="main")
    commit = shown(told.client, told.waiting)
    planned = told.client.get(f"/api/v1/commits/{told.waiting}/plan").json()
    events = [commit["events"][0] | {"transition": f"step {number}"} for number in range(60)]
    many = {"assets": (commit["assets"] * 1234)[:1234], "events": events}
    values = {"commit": commit | many, "ended": False} | planned | UNDECIDED

    def look_at(*, whole: bool) -> ParsedPage:
        made = page("commit", here, values | {"live": False, "whole": whole})
        return ParsedPage(bytes(made.body).decode())

    assert "The first 50 of 1,234. Show all" in look_at(whole=False).text
    assert "Show all" not in look_at(whole=True).text
    assert len(look_at(whole=True).rows) - len(look_at(whole=False).rows) == 1194
    assert "The last 50 of 60" in look_at(whole=False).text
    assert look_at(whole=False).row("step 59")


def test_jobs_come_in_parts_the_failed_ones_first(told: ConsoleCalls) -> None:
    here = PageLocation(path="/console/jobs", branch="main")
    jobs = (told.client.get("/api/v1/jobs").json()["jobs"] * 1234)[:1234]

    def look_at(number: int) -> ParsedPage:
        made = page("jobs", here, {"part": part_of(jobs, number), "live": False, **ONE_BRANCH})
        return ParsedPage(bytes(made.body).decode())

    assert [len(look_at(number).rows) - 1 for number in (1, 24, 25, 99)] == [50, 50, 34, 34]
    assert "Part 1 of 25, 1,234 jobs Next" in look_at(1).text
    assert "Previous Part 25 of 25, 1,234 jobs" in look_at(25).text
    assert "Part" not in look(told.client, "/console/jobs?part=1").text
    first = look(told.client, "/console/jobs").rows[1]
    assert HOSTILE.split(maxsplit=1)[0] in first
    look(told.client, "/console/jobs?part=0", status=400)


@pytest.mark.parametrize(
    ("length", "number", "found"),
    [(0, 1, ([], 1, 1)), (2, 1, ([0, 1], 1, 1)), (5, 2, ([2, 3], 2, 3)), (5, 9, ([4], 3, 3))],
)
def test_a_list_has_parts(length: int, number: int, found: tuple[list[int], int, int]) -> None:
    part = part_of(range(length), number, longest=2)

    assert ([*part.items], part.number, part.count) == found
    assert part.total == length


def test_no_text_that_the_api_could_answer_becomes_markup(told: ConsoleCalls) -> None:
    here = PageLocation(path="/console/x", branch=HOSTILE)
    read = {
        "branches": "branch/list",
        "assets": "assets",
        "jobs": "jobs",
        "features": "featuresets",
        "audits": "audits",
        "drift": "drift",
        "erasures": "erasures",
        "connections": "connections",
        "commits": "commits",
    }
    extra = {"live": False, "whole": False, "branches": [HOSTILE], "has_data_docs": True}
    pages: dict[str, Response] = {}
    for name, path in read.items():
        values = poisoned(told.client.get(f"/api/v1/{path}").json())
        listed = values.get("jobs", values.get("featuresets", []))
        pages[name] = page(name, here, extra | values | {"part": part_of(listed, 1)})
    commit = {"commit": poisoned(shown(told.client, told.waiting)), "waiting": [HOSTILE]}
    planned = poisoned(told.client.get(f"/api/v1/commits/{told.waiting}/plan").json())
    pages["commit"] = page("commit", here, extra | {"ended": False} | commit | planned | UNDECIDED)
    pages["erasure"] = page("erasure", here, {"erasure": poisoned(certified())})
    unread = poisoned(told.client.get("/api/v1/unread").json())
    listed = [("dataset", unread["datasets"][0]), ("featureset", unread["featuresets"][0])]
    shown_branches = {"some_branches": unread["branches"], "all_branches": [HOSTILE], "spans": [7]}
    more = shown_branches | {"part": part_of(listed, 1), "days": 30}
    pages["unread"] = page("unread", here, unread | more)
    pages["refused"] = page("refused", here, {"message": HOSTILE})
    pages["sign_in"] = page("sign_in", here, {"message": HOSTILE, "to": HOSTILE})
    for name, made in pages.items():
        text = bytes(made.body).decode()
        assert not runs_anything(text), name
        assert "<script>alert(1)</script>" in ParsedPage(text).text or name == "sign_in"


def test_a_browser_signs_in_with_a_token_that_no_page_and_no_script_ever_sees(
    told: ConsoleCalls,
) -> None:
    browser = TestClient(told.client.app)
    closed = look(browser, "/console/branches?live=1", status=401)

    wrong = browser.post("/console/sign-in", data={"token": "nx_wrong"})
    answer = browser.post(
        "/console/sign-in",
        data={"token": f" {TOKEN} ", "to": "/console/branches?live=1"},
        follow_redirects=False,
    )
    opened = look(browser, "/console/branches")
    twin = browser.get("/api/v1/branch/list")

    assert "a valid token is required" not in closed.text
    assert "a valid token is required" in wrong.text
    assert ("input", "/console/branches?live=1") in [(t, f.get("value")) for t, f in closed.tags]
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert (answer.status_code, answer.headers["location"]) == (303, "../console/branches?live=1")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert "main" in opened.text
    assert twin.status_code == 200
    assert browser.post("/console/sign-out", follow_redirects=False).status_code == 303
    look(browser, "/console/branches", status=401)


def test_another_sign_in_with_a_token_ends_the_session_before_it(
    told: ConsoleCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    browser = TestClient(told.client.app)
    browser.post("/console/sign-in", data={"token": TOKEN})
    copy = TestClient(told.client.app, cookies=dict(browser.cookies))

    browser.post("/console/sign-in", data={"token": TOKEN})

    look(copy, "/console", status=401)
    look(browser, "/console")


def test_a_session_only_reads_and_ends_with_its_token(
    told: ConsoleCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = told.client.post("/api/v1/tokens", json={"name": "ada", "scopes": ["admin"]}).json()
    browser = TestClient(told.client.app)
    browser.post("/console/sign-in", data={"token": made["token"]})

    read = browser.get("/api/v1/tokens").status_code
    written = browser.post("/api/v1/tokens", json={"name": "eve", "scopes": ["admin"]})
    removed = browser.delete(f"/api/v1/tokens/{made['token_id']}").status_code
    told.client.delete(f"/api/v1/tokens/{made['token_id']}")
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)

    assert (read, written.status_code, removed) == (200, 401, 401)
    look(browser, "/console", status=401)


@pytest.mark.parametrize("cookie", ["", "x", "e30=", "bm90IGpzb24=", "eyJvd25fa2V5IjogIiJ9"])
def test_a_cookie_that_we_did_not_seal_opens_nothing(told: ConsoleCalls, cookie: str) -> None:
    browser = TestClient(told.client.app, cookies={COOKIE: cookie})

    assert browser.get("/console").status_code == 401


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/console", "//evil.example", "/console//evil", "/console\\evil", "/api"],
)
def test_after_the_sign_in_a_browser_is_sent_to_a_page_of_ours(told: ConsoleCalls, to: str) -> None:
    browser = TestClient(told.client.app)
    data = {"token": TOKEN, "to": to}

    answer = browser.post("/console/sign-in", data=data, follow_redirects=False)

    assert urljoin(f"{ORIGIN}/console/sign-in", answer.headers["location"]).startswith(
        f"{ORIGIN}/console"
    )


def test_another_site_cannot_sign_a_user_in(told: ConsoleCalls) -> None:
    answer = TestClient(told.client.app).post(
        "/console/sign-in", data={"token": TOKEN}, headers={"sec-fetch-site": "cross-site"}
    )

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_a_reader_of_other_branches_sees_no_commit_of_main(told: ConsoleCalls) -> None:
    asked = {"name": "bob", "scopes": ["reader"], "branches": ["dev"]}
    made = told.client.post("/api/v1/tokens", json=asked).json()
    bob = TestClient(told.client.app, headers={"authorization": f"Bearer {made['token']}"})

    look(bob, "/console/commits?branch=dev")
    look(bob, "/console/commits", status=403)
    look(bob, f"/console/commits/{told.served}", status=403)


def test_a_call_may_leave_rights_at_home(told: ConsoleCalls) -> None:
    scope = {"x-narthex-scope": "read:definitions"}
    nothing = {"x-narthex-scope": "whatever"}

    assert told.client.get("/api/v1/commits", headers=scope).status_code == 200
    assert told.client.get("/api/v1/tokens", headers=scope).status_code == 403
    assert told.client.get("/api/v1/commits", headers=nothing).status_code == 403
    look(told.client, "/console", status=403, **nothing)


def test_embedded_pages_have_no_sign_in_and_no_outside_links(told: ConsoleCalls) -> None:
    embedded = {"x-narthex-embedded": "airflow"}
    stranger = TestClient(told.client.app)

    seen = look(told.client, "/console", **embedded)
    refused = look(stranger, "/console", status=401, **embedded)
    sealed = [link for link in seen.links() if "erasures" in link or "connections" in link]

    assert sealed == []
    assert not [tag for tag, _ in seen.tags if tag == "form" and "sign" in str(_.get("action"))]
    assert not [tag for tag, found in refused.tags if tag == "input"]
