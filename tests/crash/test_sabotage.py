"""Some guards of the protocol are switched off at each push, and a test turns red for each.

`make sabotage` switches all of them off, one by one.
"""

from collections.abc import Callable

import pytest

from tests.crash.noticing import GuardBench, noticed, pass_by_themselves
from tests.crash.sabotage import GUARDS
from tests.crash.world import World

pytestmark = pytest.mark.postgres

SAMPLE = GUARDS[::6]


@pytest.fixture(scope="module")
def bench(new_postgres_dsn: Callable[[], str], opened: World) -> GuardBench:
    return GuardBench.open(new_postgres_dsn, opened)


def test_with_every_guard_the_tests_that_are_to_notice_pass(bench: GuardBench) -> None:
    assert pass_by_themselves(bench, SAMPLE) == {}


def test_without_any_one_guard_a_test_turns_red(bench: GuardBench) -> None:
    assert [guard.name for guard in SAMPLE if not noticed(bench, guard)] == []


def test_every_guard_has_a_unique_name_and_a_test() -> None:
    assert len({guard.name for guard in GUARDS}) == len(GUARDS) >= 70
    assert all(guard.noticed_by for guard in GUARDS)


def test_every_guard_is_in_the_code() -> None:
    """A guard whose text was changed could not be switched off."""
    for guard in GUARDS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if guard.off is not None:
                guard.off(monkeypatch)
