"""A MariaDB server for tests, which speaks MySQL's protocol: Debian's `mariadb-server-core`."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pymysql

from narthex_stack.machine.ports import HOST, free_ports
from narthex_stack.processes.service import Probe, Service
from narthex_stack.servers.local_servers import running

MISSING = "MariaDB is not installed; run `apt-get install mariadb-server-core`"
_TABLES = Path("/usr/share/mysql")
_PARTS = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
_INSTALL_S = 300.0


@attrs.frozen(kw_only=True)
class MariaDb:
    """A running server: its account `narthex` may do everything."""

    port: int
    password: str = attrs.field(repr=False)

    def connect(self, **more: Any) -> Any:
        """Connect; each statement commits by itself."""
        return pymysql.connect(
            host=HOST,
            port=self.port,
            user="narthex",
            password=self.password,
            autocommit=True,
            connect_timeout=5,
            **more,
        )


def has_mariadb() -> bool:
    """Whether the server's programs are installed here."""
    return _program() is not None


def _program() -> str | None:
    # An account that is not root's has no `sbin` in its path.
    return shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")


@contextmanager
def mariadb_server(home: Path) -> Iterator[MariaDb]:
    """Run an empty server with its data below a directory; nothing is forced to disk."""
    program = _program()
    assert program is not None, MISSING
    (port,) = free_ports(1)
    server = MariaDb(port=port, password=secrets.token_hex(16))
    options = (
        program,
        "--no-defaults",
        f"--datadir={home / 'data'}",
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=8M",
        "--innodb-flush-log-at-trx-commit=0",
        # Root is the only account that has to be named.
        *(("--user=root",) if os.geteuid() == 0 else ()),
    )
    service = Service(
        name="mariadb",
        group="mariadb",
        command=(
            *options,
            f"--port={port}",
            f"--bind-address={HOST}",
            f"--socket={home / 'socket'}",
            f"--pid-file={home / 'pid'}",
            "--skip-log-bin",
        ),
        environment={"LC_ALL": "C"},
        cwd=home,
        prepare=lambda: _install(options, home, server),
        probe=_probe(server),
        port=port,
        within_s=120.0,
    )
    with running(service, home=home):
        yield server
    shutil.rmtree(home / "data", ignore_errors=True)


def _install(options: tuple[str, ...], home: Path, server: MariaDb) -> None:
    (home / "data" / "mysql").mkdir(parents=True)
    statements = [
        "USE mysql;",
        *((_TABLES / part).read_text() for part in _PARTS),
        "FLUSH PRIVILEGES;",
        f"CREATE USER narthex IDENTIFIED BY '{server.password}';",
        "GRANT ALL ON *.* TO narthex;",
    ]
    done = subprocess.run(
        (*options, "--bootstrap"),
        input="\n".join(statements),
        capture_output=True,
        text=True,
        cwd=home,
        timeout=_INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def _probe(server: MariaDb) -> Probe:
    def look() -> str | None:
        try:
            with closing(server.connect()) as connection:
                connection.ping()
        except pymysql.MySQLError as error:
            return str(error)
        return None

    return look
