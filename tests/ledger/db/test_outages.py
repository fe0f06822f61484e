"""The ledger reports an absent database as such, and continues when it is back."""

import datetime as dt
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ProgrammingError

from narthex_ledger import Ledger, LedgerUnreachable, migrate
from narthex_ledger.db.transactions import Transactions, no_faults
from narthex_stack.machine.ports import free_ports
from narthex_stack.servers import postgres
from narthex_stack.servers.local_servers import running

NOBODY = "postgresql+psycopg2://narthex:x@127.0.0.1:1/narthex"


def test_a_ledger_without_a_server_is_unreachable() -> None:
    ledger = Ledger(NOBODY)

    with pytest.raises(LedgerUnreachable, match="NX1133"):
        ledger.jobs.all()
    ledger.close()


@pytest.fixture
def transactions(ledger_dsn: str) -> Iterator[Transactions]:
    opened = Transactions(ledger_dsn, clock_shift=dt.timedelta(0), fault_hook=no_faults)
    yield opened
    opened.close()


@pytest.mark.postgres
def test_a_statement_that_takes_too_long_is_an_error_of_the_ledger(
    transactions: Transactions,
) -> None:
    def slow(connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL statement_timeout = '50ms'")
        connection.exec_driver_sql("SELECT pg_sleep(20)")

    for run in (partial(transactions.run, "slow"), partial(transactions.dry_run, "slow")):
        with pytest.raises(LedgerUnreachable, match="NX1133") as caught:
            run(slow)
        assert "statement timeout" in str(caught.value.detail)


@pytest.mark.postgres
def test_a_wait_for_one_of_too_many_connections_is_an_error_of_the_ledger(
    ledger_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_ledger.db.transactions.POOL_WAIT_S", 0.2)
    opened = Transactions(ledger_dsn, clock_shift=dt.timedelta(0), fault_hook=no_faults)

    def deeper(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT 1")
        opened.run("deeper", deeper)

    with pytest.raises(LedgerUnreachable, match="connection"):
        opened.run("deeper", deeper)
    opened.close()


@pytest.mark.postgres
def test_a_wrong_statement_is_not_an_outage(transactions: Transactions) -> None:
    with pytest.raises(ProgrammingError):
        transactions.run("wrong", lambda connection: connection.exec_driver_sql("SELEC 1"))


@pytest.mark.slow
@pytest.mark.postgres
def test_the_ledger_continues_after_its_database_restarts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    cluster = postgres.cluster(
        tmp_path,
        install_id=secrets.token_hex(4),
        port=port,
        password=secrets.token_hex(8),
        is_durable=False,
    )
    database = postgres.ServiceDatabase(name="kept", password=secrets.token_hex(8))
    service = postgres.service(cluster, databases=(database,), home=tmp_path)
    dsn = postgres.dsn(
        user=database.name, password=database.password, port=port, database=database.name
    )
    ledger = Ledger(dsn)
    try:
        with running(service, home=tmp_path) as child:
            migrate(dsn)
            version = ledger.jobs.registry_version()
            child.kill()

            for _ in range(2):
                with pytest.raises(LedgerUnreachable):
                    ledger.jobs.registry_version()
        with running(service, home=tmp_path):
            assert ledger.jobs.registry_version() == version
    finally:
        ledger.close()
        postgres.wipe(cluster)
