"""Each guard of the protocol is switched off, and a test turns red: else the tests prove little."""

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
import structlog

from narthex_ledger import migrate
from tests.crash import test_recovery
from tests.crash.sabotage import GUARDS, Guard, Notices
from tests.crash.scenarios import ONE, deploy
from tests.crash.world import World
from tests.ledger import test_locks
from tests.ledger.world import World as LedgerWorld
from tests.server import test_auditor

pytestmark = pytest.mark.postgres

SURVIVORS: list[str] = []
"""Guards whose absence nothing notices, each with its reason beside it."""
QUIET = 50

_EMPTY = """
DO $$ DECLARE tables text; BEGIN
  SELECT string_agg(quote_ident(table_name), ', ') INTO tables FROM information_schema.tables
   WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'alembic_version';
  EXECUTE 'TRUNCATE ' || tables || ' RESTART IDENTITY CASCADE';
  INSERT INTO registry_version DEFAULT VALUES;
END $$
"""


@attrs.define(kw_only=True)
class Bench:
    """Gives tests of other files the worlds that they ask for, and says whether they fail."""

    new_dsn: Callable[[], str]
    dsn: str
    clocked: World

    def fails(self, test: Notices, *, sql: str = "") -> str:
        """Run a test in an empty world; give what it failed with, or nothing."""
        try:
            self._run(test, sql)
        except AssertionError as error:
            return f"AssertionError {str(error)[:60]}".replace("\n", " ")
        except Exception as error:  # noqa: BLE001 (whatever a switched-off guard lets happen)
            return type(error).__name__
        except pytest.fail.Exception:
            return "nothing was raised"
        return ""

    def _run(self, test: Notices, sql: str) -> None:
        wanted = inspect.signature(test).parameters
        if inspect.getmodule(test) is test_recovery:
            with self.clocked.run():
                test(self.clocked)
        elif "scene" in wanted:
            with self.clocked.run():
                life = self.clocked.life()
                deploy(1, ONE)(self.clocked, life)
                test(test_auditor.Scene(self.clocked, life))
        elif "world" in wanted:
            self._in_ledger_world(test, sql)
        else:
            test()

    def _in_ledger_world(self, test: Notices, sql: str) -> None:
        dsn = self._empty(sql)
        world = LedgerWorld.open(dsn)
        given: dict[str, object] = {"world": world}
        wanted = inspect.signature(test).parameters
        try:
            if "retiring" in wanted:
                given["retiring"] = inspect.unwrap(test_locks.retiring)(world)
            if "race" in wanted:
                given["race"] = test_locks.Race(world)
            test(**given)
        finally:
            match given.get("race"):
                case test_locks.Race() as race:
                    race.close()
            world.close()

    def _empty(self, sql: str) -> str:
        if sql:
            dsn = self.new_dsn()
            migrate(dsn)
        else:
            dsn, sql = self.dsn, _EMPTY
        engine = sa.create_engine(dsn, poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(sql)
        return dsn


@pytest.fixture(scope="module")
def bench(
    new_postgres_dsn: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    dsn = new_postgres_dsn()
    migrate(dsn)
    home: Path = tmp_path_factory.mktemp("sabotage")
    clocked = World.open(new_postgres_dsn(), home)
    yield Bench(new_dsn=new_postgres_dsn, dsn=dsn, clocked=clocked)
    clocked.close()
    structlog.configure(**before)


def noticed(bench: Bench, guard: Guard) -> str:
    """Switch a guard off; give the first test that turns red and what it says."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if guard.off is not None:
            guard.off(monkeypatch)
        for number, test in enumerate(guard.noticed_by, start=1):
            said = bench.fails(test, sql=guard.sql)
            if said:
                return f"test {number}, {test.__name__}: {said}"
    return ""


def test_with_every_guard_all_of_them_pass(bench: Bench) -> None:
    tests = {test.__name__: test for guard in GUARDS for test in guard.noticed_by}

    assert {name: said for name, test in tests.items() if (said := bench.fails(test))} == {}


def test_without_any_one_guard_a_test_turns_red(bench: Bench) -> None:
    survivors = []
    for guard in GUARDS:
        said = noticed(bench, guard)
        sys.stdout.write(f"{guard.name:52} {said or 'NOBODY NOTICED'}\n")
        sys.stdout.flush()
        if not said:
            survivors.append(guard.name)
    sys.stdout.write(f"{len(GUARDS)} guards, {len(GUARDS) - len(survivors)} noticed when off\n")

    assert len({guard.name for guard in GUARDS}) == len(GUARDS) >= 40
    assert survivors == SURVIVORS
