"""A platform whose indexes are on a Redis cluster: joined, queried and proved."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from narthex.settings import environment_of
from narthex_stack import ServiceState
from tests.chaos.plant import plant
from tests.chaos.rows import Payment, Rows
from tests.redis_servers import redis_cluster, require_redis

pytestmark = [pytest.mark.stack, pytest.mark.redis]

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
