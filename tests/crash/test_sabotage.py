"""Some guards of the protocol are switched off at each push, and a test turns red for each.

`make sabotage` switches all of them off, one by one.
"""

from collections.abc import Callable, Iterator

import pytest
import structlog

from tests.crash.noticing import Bench, noticed, pass_by_themselves
from tests.crash.sabotage import GUARDS

pytestmark = pytest.mark.postgres

SAMPLE = GUARDS[::6]


@pytest.fixture(scope="module")
def bench(
    new_postgres_dsn: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with Bench.open(new_postgres_dsn, tmp_path_factory.mktemp("sabotage")) as made:
        yield made
    structlog.configure(**before)


def test_with_every_guard_the_tests_that_are_to_notice_pass(bench: Bench) -> None:
    assert pass_by_themselves(bench, SAMPLE) == {}


def test_without_any_one_guard_a_test_turns_red(bench: Bench) -> None:
    assert [guard.name for guard in SAMPLE if not noticed(bench, guard)] == []


def test_every_guard_has_a_name_of_its_own_and_somebody_who_is_to_notice() -> None:
    assert len({guard.name for guard in GUARDS}) == len(GUARDS) >= 45
    assert all(guard.noticed_by for guard in GUARDS)
