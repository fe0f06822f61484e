"""Kill -9 and SIGSTOP, a handful, on real Kafka and PostgreSQL; `make kills N=300` strikes more."""

from collections.abc import Callable
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from tests.crash.kills import carry_out, place

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

STRIKES = 6


def test_every_commit_ends_without_loss_or_leaks_under_kills(
    new_postgres_dsn: Callable[[], str], kafka_bootstrap: str, tmp_path: Path
) -> None:
    with place(tmp_path, new_postgres_dsn(), kafka_bootstrap) as here:
        tally = carry_out(here, kills=STRIKES, rng=Random(7))  # noqa: S311 (no secret)

    assert tally.broken == []
    assert tally.killed + tally.stopped == STRIKES
    assert sum(tally.ended.values()) > 0
    assert tally.ended.keys() <= {"FINALIZED", "ABORTED", "REJECTED"}
