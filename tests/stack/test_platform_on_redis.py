"""A platform whose indexes are on a Redis cluster: joined, queried and proved."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from narthex.client import Client
from narthex.settings import Settings, environment_of
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.status import ServiceState
from narthex_stores import Needle, index_names, search_indexes
from tests.acceptance import members
from tests.acceptance.platform import wait_until
from tests.chaos.plant import GROUPS, plant
from tests.chaos.rows import Payment, Rows
from tests.redis_servers import redis_cluster, redis_server, require_redis

pytestmark = [pytest.mark.stack, pytest.mark.redis, pytest.mark.slow]

WITHIN_S = 300.0
PAYMENTS = 120


def test_a_platform_with_indexes_on_a_cluster_answers_and_proves_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_redis()
    rows = Rows(seed=1)
    merchants = [merchant.plain() for merchant in rows.merchants()]
    drawn = itertools.islice((row for row in rows if isinstance(row, Payment)), PAYMENTS)
    payments = [payment.plain() for payment in drawn]
    with redis_cluster(tmp_path / "redis") as nodes:
        address = ",".join(node.url.removeprefix("redis://") for node in nodes)
        monkeypatch.setenv("NARTHEX_INDEX_STORE", f"redis://{address}")
        with plant(tmp_path / "home", supervisors=1, within_s=WITHIN_S) as installation:
            settings = installation.settings
            services = {one.name: one for one in installation.stack.status().services}
            assert installation.log("merchants", merchants[:10], call="m1")
            assert installation.log("payments", payments, call="p1")
            assert installation.log("merchants", merchants[10:], call="m2")
            installation.settle(within_s=WITHIN_S)

            proof = subprocess.run(
                (sys.executable, "-m", "narthex.cli", "prove", "--json"),
                env=environment_of(settings),
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
            card = str(payments[0]["card"])
            found = installation.lookup(
                "CardVelocity", [{"card": card}], [str(payments[-1]["paid_at"])]
            )

    assert services["index store"].state is ServiceState.EXTERNAL
    assert proof.returncode == 0, proof.stderr
    report = json.loads(proof.stdout)
    assert report["differences"] == []
    assert {"CardVelocity.index", "Merchants.index"} <= report["compared"].keys()
    assert "index" not in {one["store"] for one in report["unproved"]}
    assert found["found"] == [True]
    assert not (settings.index_dir.is_dir() and any(settings.index_dir.iterdir()))


ERASED, KEPT = "hedwig-erased-7031", "konrad-kept-2290"
AS_OF = "2026-05-03T12:00:00Z"


def clubs(client: Client) -> list[str]:
    """Ask for the club of each person, and for the members of the chess club."""
    found, _ = client.query_columns(
        ["Member.person"], ["Member.club"], {"Member.person": [ERASED, KEPT]}, as_of=AS_OF
    )
    club, _ = client.query_columns(
        ["Club.club"], ["Club.names"], {"Club.club": ["chess"]}, as_of=AS_OF
    )
    return [*map(str, found["Member.club"]), *sorted(club["Club.names"][0] or [])]


@contextmanager
def members_platform(home: Path) -> Iterator[tuple[Settings, Client]]:
    """Run a platform in which both persons are members."""
    stack = Stack(home, only=GROUPS, files_root=home.parent)
    try:
        stack.start(within_s=WITHIN_S)
        client = Client(stack.settings.server_url, stack.settings.token)
        without_sinks = [members.Members, members.Clubs]
        client.commit("members", without_sinks, members.FEATURESETS, timeout_s=WITHIN_S)
        rows = [{"person": one, "club": "chess", "since": AS_OF} for one in (ERASED, KEPT)]
        client.log("shop", "members", pd.DataFrame(rows))
        wait_until(
            lambda: clubs(client) == ["chess", "chess", ERASED, KEPT],
            within_s=WITHIN_S,
            what="both are members",
            so_far=lambda: clubs(client),
        )
        yield stack.settings, client
        client.close()
    finally:
        stack.stop()


def erased(client: Client) -> dict[str, Any]:
    """Erase a person; return the erasure when it has a certificate."""
    asked = client.erase(members.Members, pd.DataFrame({"person": [ERASED]}))
    erasure_id = str(asked.body["erasure_id"])
    wait_until(
        lambda: client.erasure(erasure_id)["state"] == "certified",
        within_s=2 * WITHIN_S,
        what="the erasure has a certificate",
        so_far=lambda: client.erasure(erasure_id),
    )
    return dict(client.erasure(erasure_id))


def with_the_key(settings: Settings) -> tuple[set[str], set[str]]:
    """Return the indexes on the servers that have the key, and all indexes."""
    found = search_indexes(settings, index_names(settings), [Needle(cells={"person": ERASED})])
    return {name for name, result in found.items() if result.found}, set(found)


def test_a_person_is_erased_from_indexes_on_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_redis()
    with redis_server(tmp_path / "redis") as node:
        monkeypatch.setenv("NARTHEX_INDEX_STORE", node.url)
        with members_platform(tmp_path / "home") as (settings, client):
            before, _ = with_the_key(settings)
            certificate = erased(client)["certificate"]
            after, there = with_the_key(settings)
            answers = clubs(client)
        left = [key for key in node.connect().scan_iter(count=1000) if ERASED.encode() in key]

    assert len(before) >= 2, "the index of the dataset, and that of its aggregate"
    assert after == set()
    assert before.isdisjoint(there)
    assert left == []
    assert answers == ["none", "chess", KEPT]
    assert before <= set(certificate["destroyed"])
    read = [one["store"] for one in certificate["searched"] if one["items"]]
    assert {f"index {name}" for name in there} >= {one for one in read if one.startswith("index ")}
    assert len([one for one in read if one.startswith("index ")]) == len(before)
