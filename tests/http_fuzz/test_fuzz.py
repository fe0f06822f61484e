"""A share of `make fuzz-http`, and the fuzzer itself."""

from pathlib import Path

import attrs
import pytest

from tests.http_fuzz.calls import random_calls
from tests.http_fuzz.fuzzing import Fuzzer, FuzzReport
from tests.http_fuzz.serving import run_server

pytestmark = pytest.mark.slow

SHARE = 600
PATIENT_S = 90.0
"""Only a call that never ends fails here: other tests run at the same time."""


def test_the_same_seed_makes_the_same_calls_of_many_routes() -> None:
    drawn = [[str(call) for call in random_calls(120, seed, commit_id="c")] for seed in (3, 3, 4)]
    paths = {call.split()[1].partition("?")[0] for call in drawn[0]}

    assert without_numbers(drawn[0]) == without_numbers(drawn[1])
    assert without_numbers(drawn[0]) != without_numbers(drawn[2])
    assert len(paths) > 20


def without_numbers(calls: list[str]) -> list[str]:
    """Leave out the numbers that the generator gives its cases."""
    return [call.partition("x-schemathesis-testcaseid")[0] for call in calls]


@pytest.mark.parametrize(
    "wrong",
    [{"failures": ["500"]}, {"lost": 1}, {"has_ended": True}, {"accepted": 0}],
)
def test_a_report_with_a_fault_is_not_sound(wrong: dict[str, object]) -> None:
    sound = FuzzReport(calls=10, accepted=3)

    assert sound.is_sound()
    assert not attrs.evolve(sound, **wrong).is_sound()


@pytest.mark.kafka
@pytest.mark.postgres
def test_random_calls_of_all_roles_fail_nowhere_and_lose_no_row(
    tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str
) -> None:
    with run_server(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap) as under:
        fuzzer = Fuzzer(under=under, kafka=kafka_bootstrap, longest_s=PATIENT_S)
        report = fuzzer.run(SHARE, 7, tell=print)

    assert report.failures == []
    assert report.is_sound(), report.plain()
    assert report.calls == SHARE
    assert sum(report.statuses[code] for code in (200, 202)) > SHARE / 10
