"""The ledger reports an absent database as such, and continues when it is back."""

import secrets
from pathlib import Path

import pytest

from narthex_ledger import Ledger, LedgerUnreachable, migrate
from narthex_stack.machine.ports import free_ports
from narthex_stack.servers import postgres
from narthex_stack.servers.local_servers import running

NOBODY = "postgresql+psycopg2://narthex:x@127.0.0.1:1/narthex"


def test_a_ledger_without_a_server_is_unreachable() -> None:
    ledger = Ledger(NOBODY)

    with pytest.raises(LedgerUnreachable, match="NX1133"):
        ledger.jobs.all()
    ledger.close()


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
