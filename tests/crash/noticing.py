"""`python -m tests.crash.noticing`: switch each guard off, and print the test that notices."""

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Self

import attrs
import pytest
import sqlalchemy as sa
import structlog
import typer

from narthex_ledger import migrate
from tests.crash import test_alerts, test_auditor, test_erasure, test_recovery, test_retention
from tests.crash.__main__ import QUIET
from tests.crash.sabotage import GUARDS, Guard, Notices
from tests.crash.scenarios import ONE, deploy
from tests.crash.world import World
from tests.ledger.db import test_locks
from tests.ledger.world import World as LedgerWorld
from tests.memory import server_in_memory

_EMPTY = """
DO $$ DECLARE tables text; BEGIN
  SELECT string_agg(quote_ident(table_name), ', ') INTO tables FROM information_schema.tables
   WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'alembic_version';
  EXECUTE 'TRUNCATE ' || tables || ' RESTART IDENTITY CASCADE';
  INSERT INTO registry_version DEFAULT VALUES;
  INSERT INTO alert_evaluator DEFAULT VALUES;
END $$
"""


_NUMBERS = itertools.count(1)


@attrs.define(kw_only=True)
class GuardBench:
    """Provides tests of other files with their worlds, and reports whether they fail."""

    new_dsn: Callable[[], str]
    dsn: str
    clocked: World

    @classmethod
    def open(cls, new_dsn: Callable[[], str], clocked: World) -> Self:
        dsn = new_dsn()
        migrate(dsn)
        return cls(new_dsn=new_dsn, dsn=dsn, clocked=clocked)

    def fails(self, test: Notices, *, sql: str = "") -> str:
        """Run a test in an empty world; return what it failed with, or nothing."""
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
        if inspect.getmodule(test) in {test_alerts, test_recovery, test_erasure, test_retention}:
            with self.clocked.run():
                test(self.clocked)
        elif "scene" in wanted:
            with self.clocked.run():
                life = self.clocked.life()
                deploy(1, ONE)(self.clocked, life)
                test(test_auditor.AuditScene(self.clocked, life))
        elif wanted.keys() & {"world", "obsolete"}:
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
            if "obsolete" in wanted:
                obsolete = vars(inspect.getmodule(test))["obsolete"]
                given["obsolete"] = inspect.unwrap(obsolete)(world)
            test(**{name: value for name, value in given.items() if name in wanted})
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


def noticed(bench: GuardBench, guard: Guard) -> str:
    """Switch a guard off; return the first test that fails, and its message."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if guard.off is not None:
            guard.off(monkeypatch)
        for number, test in enumerate(guard.noticed_by, start=1):
            said = bench.fails(test, sql=guard.sql)
            if said:
                return f"test {number}, {test.__name__}: {said}"
    return ""


def pass_by_themselves(bench: GuardBench, guards: Iterable[Guard]) -> dict[str, str]:
    """Run the guards' tests with every guard on; return those that fail all the same, and why."""
    tests = {test.__name__: test for guard in guards for test in guard.noticed_by}
    return {name: said for name, test in tests.items() if (said := bench.fails(test))}


def main(
    guard: Annotated[str, typer.Option(help="Test only guards whose names start with this.")] = "",
) -> None:
    """Switch each guard off; exit with 1 if no test fails."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    chosen = [one for one in GUARDS if one.name.startswith(guard)]
    with (
        server_in_memory() as (server, home),
        contextlib.closing(World.open(server.create_database("crash"), home)) as clocked,
    ):
        bench = GuardBench.open(
            lambda: server.create_database(f"sabotage{next(_NUMBERS)}"), clocked
        )
        already = pass_by_themselves(bench, chosen)
        survivors = []
        for one in chosen:
            said = noticed(bench, one)
            sys.stdout.write(f"{one.name:52} {said or 'NOBODY NOTICED'}\n")
            sys.stdout.flush()
            if not said:
                survivors.append(one.name)
    sys.stdout.write(f"{len(chosen)} guards, {len(chosen) - len(survivors)} noticed when off\n")
    for name, said in already.items():
        sys.stdout.write(f"fails with every guard on: {name}: {said}\n")
    raise typer.Exit(1 if survivors or already or not chosen else 0)


if __name__ == "__main__":
    typer.run(main)
