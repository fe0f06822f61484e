"""The addresses of an installation's services, each of which may be an external service.

`narthex up` writes `$NARTHEX_HOME/services.json` (mode 0600) and passes the same settings to its
child processes as environment variables; a variable overrides the file.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from narthex._base import make_private, who_may_enter

FULL: Final = "full"
REDUCED: Final = "reduced"
GIT_SCHEMES: Final = ("https", "ssh", "file")
"""The schemes of addresses of Git repositories that an installation may allow."""

HOME_GROUP: Final = "NARTHEX_HOME_GROUP"
"""The variable that lets the group of a home enter it: `on`, for a volume that belongs to one."""

LOG_LINES: Final = "lines"
JSON_LOGS: Final = "json"

OFFLINE_SPINE: Final = "spine.parquet"
"""The file with the rows of an offline query, in its `Settings.offline_directory`."""
_DESCRIBED: Final = "services.json"

MOST_PARTITIONS: Final = 1024
"""The greatest number of partitions of a dataset's log."""

MOST_METRIC_DAYS: Final = 30
"""The greatest number of days for which samples of metrics are kept."""


class NotInstalledError(RuntimeError):
    """The settings of the installation are missing or invalid."""


class HomeOpenToOthersError(NotInstalledError):
    """Other accounts may enter the home, where rows, answers and keys are."""


def _is_on_or_empty(_: object, attribute: "attrs.Attribute[str]", value: str) -> None:
    if value not in {"", "on"}:
        raise NotInstalledError(
            f"`NARTHEX_{attribute.name.upper()}` is `{value}`; leave it out, or set it to `on`"
        )


def _is_a_sandbox(_: object, __: object, value: str) -> None:
    if value not in (FULL, REDUCED):
        raise NotInstalledError(
            f"`NARTHEX_SANDBOX` is `{value}`, which is neither `{FULL}` nor `{REDUCED}`; "
            f"leave it out, or set it to `{REDUCED}` to run authors' code with a weaker sandbox"
        )


def _is_a_log_format(_: object, __: object, value: str) -> None:
    if value not in (LOG_LINES, JSON_LOGS):
        raise NotInstalledError(
            f"`NARTHEX_LOG_FORMAT` is `{value}`; set it to `{LOG_LINES}` or `{JSON_LOGS}`"
        )


def _are_git_schemes(_: object, __: object, value: str) -> None:
    unknown = [one for one in schemes_in(value) if one not in GIT_SCHEMES]
    if unknown:
        raise NotInstalledError(
            f"`NARTHEX_GIT_SCHEMES` has `{unknown[0]}`; "
            f"set it to some of `{','.join(GIT_SCHEMES)}`, separated by commas"
        )


def schemes_in(text: str) -> tuple[str, ...]:
    """Return the schemes that a setting lists, in its order."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _is_a_partition_count(_: object, __: object, value: int) -> None:
    if not 1 <= value <= MOST_PARTITIONS:
        raise NotInstalledError(
            f"`NARTHEX_PARTITIONS` is {value}; set it to a number from 1 to {MOST_PARTITIONS}"
        )


def _is_a_number_of_days(_: object, __: object, value: int) -> None:
    if not 0 <= value <= MOST_METRIC_DAYS:
        raise NotInstalledError(
            f"`NARTHEX_METRICS_KEPT_DAYS` is {value}; "
            f"set it to a number from 0, for no samples, to {MOST_METRIC_DAYS}"
        )


def is_package_index(text: str) -> bool:
    """Whether a setting is an address, an absolute path, or empty."""
    return not text or text.startswith(("https://", "http://", "/"))


def _is_a_package_index(_: object, __: object, value: str) -> None:
    if not is_package_index(value):
        raise NotInstalledError(
            "`NARTHEX_PACKAGE_INDEX` is neither an address nor the absolute path of a directory; "
            "set it to `https://HOST/simple`, or to a directory with wheels"
        )


@attrs.frozen(kw_only=True)
class Settings:
    """The addresses and directories of one installation.

    Each field is the variable `NARTHEX_<FIELD>` and the key of the same lower-case name in
    `services.json`.

    Attributes:
        home: The state directory of the services on this machine.
        install_id: Eight characters [a-z0-9] in each physical name.
        ledger_dsn: SQLAlchemy URL (`postgresql+psycopg2://…`) of the control database.
        kafka: Bootstrap servers.
        kafka_user: The user as whom the platform signs in to Kafka by SASL; empty without SASL.
        kafka_password: The password of that user; never logged.
        kafka_mechanism: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        kafka_tls: `on` encrypts connections to Kafka; brokers are verified against `ca_file`.
        server_url: Where the server listens, without a path.
        token: The service token of the platform's own processes; never logged.
        dags_token: The token of Airflow's processes, with fewer rights; never logged.
        airflow_url: The Airflow API server; empty without one.
        airflow_user: For `POST /auth/token`.
        airflow_password: For `POST /auth/token`; never logged.
        index_dir: LMDB environments, one directory an index.
        index_store: The servers that hold the indexes instead: `redis://host:port`, or `rediss://`
            for TLS; `?replicas=N` makes writers wait for replicas; empty for LMDB in `index_dir`.
        index_store_password: For `index_store`; never logged.
        history_dir: Delta tables; a path or an `s3://` URL.
        checkpoint_dir: Spark checkpoints.
        snapshot_dir: The place of snapshots of indexes and jobs' states: a path or an `s3://`
            URL; empty for no snapshots.
        snapshot_every_s: Seconds between snapshots of indexes and states that change.
        snapshots_kept: The number of snapshots to keep of each index and state.
        metrics_kept_days: For how many days samples of metrics are kept, at most 30; the console
            plots them. 0 takes no samples.
        files_root: The directory that relative paths of file sources start from.
        spark_master: Such as `local[512]`: a live job holds a slot for each partition that it
            reads, and a job without slots waits. On one machine a slot is a thread. A cluster is
            `spark://HOST:PORT`, `yarn` or `k8s://…`.
        spark_conf: A file of further properties of Spark, in the format of `spark-defaults.conf`.
        spark_secret_file: A file with the secret that the processes of a standalone cluster share;
            never logged.
        spark_ui_port: The port of Spark's own pages, which listen on loopback; 0 for none.
        jars_dir: The Kafka and Avro connectors of Spark.
        package_index: The package index, `https://…/simple`, or a directory of wheels, from which
            the server installs the packages of projects' locks; empty for none. It may have
            credentials; never logged.
        run_job: A program that runs backfills instead of the engine's own; empty for none.
        driver_backfill_rows: A backfill of at most so many rows runs in a driver of live jobs,
            which is up already; a larger one starts its own Spark.
        most_branches: How many branches the holder of one token may have made, with deleted ones
            that can be restored.
        most_definitions: How many datasets and featuresets a branch may have.
        secrets_dir: The directory where a manager mounts the secrets that definitions name, as
            files; if empty, they are sealed in the ledger.
        control_log_heads: A file outside the database to which the server appends the hash of
            each entry of the control log; empty is `control-log.heads` in `home`. Ship it to
            another machine: what it lists can no longer be cut off or rewritten unnoticed.
        policy_file: The rules for what branches may read, write and name; a missing file is a
            policy without rules.
        alerts_file: The receivers of alerts and the bounds of their rules; a missing file has no
            receivers.
        sso_file: The provider of single sign-on, and the rights of its groups; without the file,
            there is no single sign-on.
        partitions: How many partitions the log of a new dataset has, unless its author decides; 1
            to 1,024.
        definitions_root: The directory below which the form of Airflow's DAG `commit` finds
            projects.
        git_schemes: The schemes of addresses of Git repositories that the form may fetch, separated
            by commas: `https`, `ssh`, `file`; empty for none.
        log_format: `lines`, or `json` for one object a line in the logs of servers, read processes
            and Spark jobs.
        sandbox: `full`, or `reduced`: authors' code may run where the kernel does not grant all
            layers of the sandbox.
        reads_url: Where the read process of this machine listens, without a path; empty if the
            server alone answers reads.
        reads_greatest_age_s: For how many seconds reads go on with the definitions that are known
            while the database does not answer. Until then, a token that was revoked meanwhile is
            accepted.
        reads_greatest_values: How many values, rows times features, a query may ask for.
        offline_queries_at_once: How many offline queries a supervisor runs at once; of several,
            one branch gets all but one. 0 is the number of cores, but at least 2 and at most 4.
        offline_queries_per_token: How many offline queries of a token may wait or run.
        offline_query_greatest_s: For how many seconds an offline query may run.
        ca_file: Certificates of the authorities that services of authors, the brokers of `kafka`
            and the servers of `index_store` are verified against; empty for those that the machine
            trusts.
    """

    home: Path = attrs.field(converter=Path)
    install_id: str
    ledger_dsn: str = attrs.field(repr=False)
    kafka: str
    kafka_user: str = ""
    kafka_password: str = attrs.field(default="", repr=False)
    kafka_mechanism: str = "PLAIN"
    kafka_tls: str = attrs.field(default="", validator=_is_on_or_empty)
    server_url: str
    token: str = attrs.field(repr=False)
    dags_token: str = attrs.field(default="", repr=False)
    airflow_url: str = ""
    airflow_user: str = "admin"
    airflow_password: str = attrs.field(default="", repr=False)
    index_dir: Path = attrs.field(converter=Path)
    index_store: str = ""
    index_store_password: str = attrs.field(default="", repr=False)
    history_dir: str
    checkpoint_dir: Path = attrs.field(converter=Path)
    snapshot_dir: str = ""
    snapshot_every_s: float = attrs.field(default=300.0, converter=float)
    snapshots_kept: int = attrs.field(default=3, converter=int)
    metrics_kept_days: int = attrs.field(
        default=MOST_METRIC_DAYS, converter=int, validator=_is_a_number_of_days
    )
    files_root: Path = attrs.field(converter=Path)
    spark_master: str = "local[512]"
    spark_conf: str = ""
    spark_secret_file: str = ""
    spark_ui_port: int = attrs.field(default=0, converter=int)
    jars_dir: Path = attrs.field(converter=Path)
    secrets_dir: str = ""
    control_log_heads: str = ""
    policy_file: Path = attrs.field(
        default=attrs.Factory(lambda settings: settings.home / "policy.toml", takes_self=True),
        converter=Path,
    )
    alerts_file: Path = attrs.field(
        default=attrs.Factory(lambda settings: settings.home / "alerts.toml", takes_self=True),
        converter=Path,
    )
    sso_file: Path = attrs.field(
        default=attrs.Factory(lambda settings: settings.home / "sso.toml", takes_self=True),
        converter=Path,
    )
    definitions_root: Path = attrs.field(
        default=attrs.Factory(lambda settings: settings.home / "definitions", takes_self=True),
        converter=Path,
    )
    git_schemes: str = attrs.field(default="https,ssh", validator=_are_git_schemes)
    driver_backfill_rows: int = attrs.field(default=100_000, converter=int)
    most_branches: int = attrs.field(default=500, converter=int)
    most_definitions: int = attrs.field(default=5_000, converter=int)
    partitions: int = attrs.field(default=2, converter=int, validator=_is_a_partition_count)
    log_format: str = attrs.field(default=LOG_LINES, validator=_is_a_log_format)
    package_index: str = attrs.field(default="", repr=False, validator=_is_a_package_index)
    sandbox: str = attrs.field(default=FULL, validator=_is_a_sandbox)
    reads_url: str = ""
    reads_greatest_age_s: float = attrs.field(default=3600.0, converter=float)
    reads_greatest_values: int = attrs.field(default=1_000_000, converter=int)
    offline_queries_at_once: int = attrs.field(default=0, converter=int)
    offline_queries_per_token: int = attrs.field(default=20, converter=int)
    offline_query_greatest_s: float = attrs.field(default=3600.0, converter=float)
    ca_file: str = ""
    run_job: str = ""

    @property
    def has_local_spark(self) -> bool:
        """Whether Spark runs in the process of its driver, and not on a cluster."""
        return re.fullmatch(r"local(\[.*\])?", self.spark_master) is not None

    @property
    def control_log_heads_file(self) -> Path:
        """The file that lists the hashes of the control log's entries."""
        named = self.control_log_heads
        return Path(named) if named else self.home / "control-log.heads"

    @property
    def offline_dir(self) -> Path:
        """The directory above the directories of all offline queries."""
        return self.home / "offline"

    def offline_directory(self, request_id: str) -> Path:
        """Return the directory of an offline query's spine and results."""
        return self.offline_dir / str(UUID(request_id))

    def offline_answers(self, request_id: str, epoch: int) -> Path:
        """Return the file of the answers that one run of an offline query wrote.

        A run that was fenced cannot change the answers of a later one.
        """
        return self.offline_directory(request_id) / f"answers-{epoch}.parquet"

    @property
    def training_sets_dir(self) -> Path:
        """The directory of the rows of training sets."""
        return self.home / "training_sets"

    def training_set_file(self, training_set_id: UUID) -> Path:
        """Return the file of the rows of a training set."""
        return self.training_sets_dir / f"{training_set_id}.parquet"

    @property
    def expectations_dir(self) -> Path:
        """The project root of the Data Context of Great Expectations: suites and results."""
        return self.home / "expectations"

    @property
    def data_docs_dir(self) -> Path:
        """The directory of the Data Docs, pages that the Data Context makes of its results."""
        return self.expectations_dir / "gx" / "uncommitted" / "data_docs" / "local_site"

    @property
    def secrets_key(self) -> Path:
        """The key that encrypts and decrypts the secrets of the ledger."""
        return self.home / "secrets.key"

    @property
    def signing_key(self) -> Path:
        """The key that signs bundles, commits and assets of the ledger."""
        return self.home / "signing.key"

    @property
    def next_signing_key(self) -> Path:
        """The key that takes the place of the signing key; it exists only during a rotation."""
        return self.home / "signing.key.next"

    @property
    def verifying_key(self) -> Path:
        """The public halves of signing keys, with which engines verify the code that they run."""
        return self.home / "signing.pub"

    def without_secrets(self) -> "Settings":
        """Return the settings with empty secrets, to send them to another process."""
        return attrs.evolve(self, **dict.fromkeys(_secrets(), ""))

    def with_secrets(self, environment: Mapping[str, str] | None = None) -> "Settings":
        """Return the settings with the secrets that this process can read.

        Those that neither the environment nor `services.json` in `home` has are unchanged.
        """
        found = _found_values(self.home, os.environ if environment is None else environment)
        return attrs.evolve(self, **{name: found[name] for name in _secrets() if name in found})


def home_of(environment: Mapping[str, str]) -> Path:
    """Return the state directory: `NARTHEX_HOME`, else `~/.narthex`."""
    named = environment.get("NARTHEX_HOME")
    return Path(named) if named else Path.home() / ".narthex"


def is_home_of_group(environment: Mapping[str, str]) -> bool:
    """Return whether the group of the home may enter it, as `NARTHEX_HOME_GROUP` says.

    It is a variable alone: who can write into a home must not decide who may do so.

    Raises:
        NotInstalledError: The variable is neither empty nor `on`.
    """
    value = environment.get(HOME_GROUP, "")
    if value not in {"", "on"}:
        raise NotInstalledError(f"`{HOME_GROUP}` is `{value}`; leave it out, or set it to `on`")
    return value == "on"


def require_private_home(home: Path, environment: Mapping[str, str]) -> None:
    """Check who may enter a home, before anything in it is read; a missing one is all right.

    Raises:
        HomeOpenToOthersError: Others than its owner may, or than its group if that is meant.
    """
    others = who_may_enter(home, is_of_group=is_home_of_group(environment))
    if not others:
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    remedy = f"run `chmod {'o-rwx' if is_home_of_group(environment) else '700'} {home}`"
    if others == "group":
        remedy += f", or set `{HOME_GROUP}=on` if the group of a volume is meant"
    raise HomeOpenToOthersError(
        f"`{home}` has the mode {mode:04o}, so that other accounts can read the rows, answers and "
        f"keys in it; {remedy}"
    )


def make_home(home: Path, environment: Mapping[str, str]) -> None:
    """Create a home for this account alone, or check an existing one.

    Raises:
        HomeOpenToOthersError: Others than its owner may enter it, or than its group if that is
            meant.
    """
    make_private(home, is_of_group=is_home_of_group(environment))
    require_private_home(home, environment)


def make_places(settings: Settings, environment: Mapping[str, str] | None = None) -> None:
    """Create the home and the other directories of an installation's state, if they are missing.

    An existing directory outside of the home is its operator's, and is not checked.

    Raises:
        HomeOpenToOthersError: Others may enter the home.
    """
    found = os.environ if environment is None else environment
    make_home(settings.home, found)
    named = (settings.history_dir, settings.snapshot_dir)
    local = [Path(one) for one in named if one.startswith("/")]
    own = (settings.index_dir, settings.checkpoint_dir, settings.expectations_dir)
    for place in (*own, *local):
        make_private(place, is_of_group=is_home_of_group(found))


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of the installation that the environment names.

    Raises:
        NotInstalledError: Neither the file nor the environment has the addresses of the services.
        HomeOpenToOthersError: Others may enter the home.
    """
    found = os.environ if environment is None else environment
    home = home_of(found)
    require_private_home(home, found)
    values = {"home": str(home), **_found_values(home, found)}
    missing = [
        field.name
        for field in attrs.fields(Settings)
        if field.default is attrs.NOTHING and field.name not in values
    ]
    if missing:
        raise NotInstalledError(
            f"`{home / _DESCRIBED}` has no {', '.join(missing)}; "
            "start the services with `narthex up`"
        )
    return Settings(**{f.name: values[f.name] for f in attrs.fields(Settings) if f.name in values})


def _found_values(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the file in `home` and the environment have, by name."""
    described = home / _DESCRIBED
    values: dict[str, str] = {}
    if os.access(described, os.R_OK):
        values |= json.loads(described.read_text())
    for field in attrs.fields(Settings):
        value = environment.get(f"NARTHEX_{field.name.upper()}")
        if value is not None:
            values[field.name] = value
    return values


def _secrets() -> tuple[str, ...]:
    """Return the names of the settings that are secret."""
    return tuple(field.name for field in attrs.fields(Settings) if not field.repr)


def is_sandbox_reduced(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the installation lets authors' code run with some layers of the sandbox missing.

    Raises:
        NotInstalledError: The setting is neither `full` nor `reduced`.
    """
    found = os.environ if environment is None else environment
    described = home_of(found) / _DESCRIBED
    value = found.get("NARTHEX_SANDBOX")
    if value is None and os.access(described, os.R_OK):
        value = json.loads(described.read_text()).get("sandbox")
    _is_a_sandbox(None, None, FULL if value is None else str(value))
    return value == REDUCED


@attrs.frozen(kw_only=True)
class ProjectPlaces:
    """The places that projects of Airflow's form come from, and that of their packages.

    Attributes:
        home: The state directory on this machine.
        definitions_root: The root of definitions.
        git_schemes: The schemes of Git repositories that may be fetched.
        package_index: As in `Settings`.
        ca_file: As in `Settings`.
        sandbox: As in `Settings`.
    """

    home: Path
    definitions_root: Path
    git_schemes: tuple[str, ...]
    package_index: str = attrs.field(repr=False)
    ca_file: str
    sandbox: str


def project_places(environment: Mapping[str, str] | None = None) -> ProjectPlaces:
    """Return the places of projects.

    An Airflow that another installation owns has these settings alone, or their defaults.

    Raises:
        NotInstalledError: A scheme is unknown, or the package index or the sandbox is invalid.
        HomeOpenToOthersError: Others may enter the home.
    """
    found = os.environ if environment is None else environment
    home = home_of(found)
    require_private_home(home, found)
    values = _found_values(home, found)
    schemes = values.get("git_schemes", ",".join(GIT_SCHEMES[:2]))
    index = values.get("package_index", "")
    sandbox = values.get("sandbox", FULL)
    _are_git_schemes(None, None, schemes)
    _is_a_sandbox(None, None, sandbox)
    _is_a_package_index(None, None, index)
    return ProjectPlaces(
        home=home,
        definitions_root=Path(values.get("definitions_root", home / "definitions")),
        git_schemes=schemes_in(schemes),
        package_index=index,
        ca_file=values.get("ca_file", ""),
        sandbox=sandbox,
    )


def environment_of(settings: Settings) -> dict[str, str]:
    """Render settings as the variables that `load_settings` reads."""
    return {
        f"NARTHEX_{name.upper()}": str(value)
        for name, value in attrs.asdict(settings, recurse=False).items()
    }
