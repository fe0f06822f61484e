"""The configuration: addresses of external services to use instead of starting our own.

A variable `NARTHEX_<FIELD>` overrides the key of the same lower-case name in `config.toml`.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import attrs

from narthex.settings import (
    FULL,
    GIT_SCHEMES,
    JSON_LOGS,
    LOG_LINES,
    MOST_METRIC_DAYS,
    MOST_PARTITIONS,
    REDUCED,
    is_package_index,
    schemes_in,
)
from narthex_stack.errors import BadConfigError

_SECONDS = ("snapshot_every_s", "reads_greatest_age_s", "offline_query_greatest_s")
_COUNTS = (
    *("snapshots_kept", "driver_backfill_rows", "reads_greatest_values"),
    *("most_branches", "most_definitions"),
    *("offline_queries_at_once", "offline_queries_per_token"),
)


@attrs.frozen(kw_only=True)
class Config:
    """The configuration of an installation; an empty field is not set.

    Attributes:
        ledger_dsn: Your PostgreSQL for the ledger, as an SQLAlchemy URL.
        airflow_dsn: Your PostgreSQL for an Airflow that is started on this machine.
        kafka: Bootstrap servers of your Kafka.
        kafka_user: Our user there, if it uses SASL.
        kafka_password: The password of that user.
        kafka_mechanism: `PLAIN`, which is the default, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        kafka_tls: `on` if it uses TLS.
        server_url: A Narthex server that runs elsewhere.
        token: Its service token; needed with `server_url`.
        dags_token: A token of that server with the role `dags`, for an Airflow started here.
        airflow_url: Your Airflow's API server.
        airflow_user: Our user there.
        airflow_password: The password of that user.
        index_dir: The directory of the indexes.
        index_store: Your servers of the Redis protocol, as `redis://host:port`, for the indexes.
        index_store_password: Their password.
        history_dir: The place of the history: a path or an `s3://` URL.
        checkpoint_dir: The directory of Spark's checkpoints.
        snapshot_dir: The place of snapshots of indexes and states: a path or an `s3://` URL.
        snapshot_every_s: Seconds between snapshots of those that change; 300 by default.
        snapshots_kept: How many snapshots of each are kept; 3 by default.
        metrics_kept_days: For how many days samples of metrics are kept; 30 by default, 0 for none.
        files_root: The root of relative paths of file sources.
        spark_master: Such as `local[512]`: a slot for each partition that a live job reads; or a
            cluster.
        spark_conf: A file of further properties of Spark, in the format of `spark-defaults.conf`.
        spark_secret_file: A file with the secret that a standalone cluster shares.
        spark_ui_port: The port of Spark's own pages on loopback; without it, there are none.
        secrets_dir: The directory in which a manager mounts the secrets of authors, as files.
        ca_file: Certificates of the authorities that services of authors are verified with.
        policy_file: What branches may read, write and name; by default `policy.toml` in the home.
        alerts_file: The receivers of alerts and the bounds of their rules; by default `alerts.toml`
            in the home.
        sso_file: The provider of single sign-on, and the rights of its groups; by default
            `sso.toml` in the home.
        partitions: How many partitions the log of a new dataset has; 2 by default.
        definitions_root: The directory with the projects that Airflow's form commits; by default
            `definitions` in the home.
        git_schemes: The schemes of Git repositories that the form may fetch; by default
            `https,ssh`.
        package_index: The address of a package index, or a directory of wheels, from which the
            packages of projects' locks are installed; without it, commits with a lock are refused.
        control_log_heads: The file with the hashes of the control log; by default
            `control-log.heads` in the home.
        driver_backfill_rows: A backfill of at most so many rows runs in a driver that is up
            already; 100,000 by default.
        most_branches: How many branches the holder of one token may have made; 500 by default.
        most_definitions: How many datasets and featuresets a branch may have; 5,000 by default.
        run_job: A program that runs backfills instead of the engine's own.
        reads_greatest_age_s: For how many seconds reads go on while the database is away; 3,600 by
            default.
        reads_greatest_values: How many values a query may ask for; 1,000,000 by default.
        offline_queries_at_once: How many offline queries a supervisor runs at once; by default the
            number of cores, from 2 to 4.
        offline_queries_per_token: How many offline queries of a token may wait or run; 20 by
            default.
        offline_query_greatest_s: For how many seconds an offline query may run; 3,600 by default.
        log_format: `json` for one object a line in the logs of processes; `lines` by default.
        sandbox: `reduced`: authors' code may run where the kernel lacks layers of the sandbox.
        dags_dir: The DAGs of an Airflow that is started here.
        supervisors: How many supervisors share the jobs here; one by default.
        reads: How many processes here answer reads only, beside the server; none by default.
    """

    ledger_dsn: str = attrs.field(default="", repr=False)
    airflow_dsn: str = attrs.field(default="", repr=False)
    kafka: str = ""
    kafka_user: str = ""
    kafka_password: str = attrs.field(default="", repr=False)
    kafka_mechanism: str = ""
    kafka_tls: str = ""
    server_url: str = ""
    token: str = attrs.field(default="", repr=False)
    dags_token: str = attrs.field(default="", repr=False)
    airflow_url: str = ""
    airflow_user: str = ""
    airflow_password: str = attrs.field(default="", repr=False)
    index_dir: str = ""
    index_store: str = ""
    index_store_password: str = attrs.field(default="", repr=False)
    history_dir: str = ""
    checkpoint_dir: str = ""
    snapshot_dir: str = ""
    files_root: str = ""
    spark_master: str = ""
    spark_conf: str = ""
    spark_secret_file: str = ""
    spark_ui_port: str = ""
    secrets_dir: str = ""
    ca_file: str = ""
    policy_file: str = ""
    alerts_file: str = ""
    sso_file: str = ""
    partitions: str = ""
    definitions_root: str = ""
    git_schemes: str = "https,ssh"
    package_index: str = attrs.field(default="", repr=False)
    snapshot_every_s: str = ""
    snapshots_kept: str = ""
    metrics_kept_days: str = ""
    control_log_heads: str = ""
    driver_backfill_rows: str = ""
    most_branches: str = ""
    most_definitions: str = ""
    run_job: str = ""
    reads_greatest_age_s: str = ""
    reads_greatest_values: str = ""
    offline_queries_at_once: str = ""
    offline_queries_per_token: str = ""
    offline_query_greatest_s: str = ""
    log_format: str = ""
    sandbox: str = ""
    dags_dir: str = ""
    supervisors: str = ""
    reads: str = ""

    def __attrs_post_init__(self) -> None:
        if self.server_url and not self.token:
            raise BadConfigError("`server_url` is given without `token`: we could not log in there")
        if self.airflow_url and not self.airflow_password:
            raise BadConfigError("`airflow_url` is given without `airflow_password`")
        self._check_kafka()
        self._check_index_store()
        self._check_git_schemes()
        self._check_numbers()
        self._check_words()
        if not re.fullmatch(r"[1-9]\d*|", self.partitions) or (
            int(self.partitions or 1) > MOST_PARTITIONS
        ):
            raise BadConfigError(
                f"`partitions` is `{self.partitions}`; it may be 1 to {MOST_PARTITIONS}"
            )
        if not re.fullmatch(r"\d{0,5}", self.spark_ui_port):
            raise BadConfigError(f"`spark_ui_port` is `{self.spark_ui_port}`, which is not a port")
        if not re.fullmatch(r"[1-9]?", self.supervisors):
            raise BadConfigError(f"`supervisors` is `{self.supervisors}`; it may be 1 to 9")
        if not re.fullmatch(r"[1-9]?", self.reads):
            raise BadConfigError(f"`reads` is `{self.reads}`; it may be 1 to 9")

    def _check_words(self) -> None:
        if not is_package_index(self.package_index):
            raise BadConfigError(
                "`package_index` is neither `https://HOST/simple` nor the absolute path of a "
                "directory"
            )
        if self.log_format not in {"", LOG_LINES, JSON_LOGS}:
            raise BadConfigError(
                f"`log_format` is `{self.log_format}`; it may be `{LOG_LINES}` or `{JSON_LOGS}`"
            )
        if self.sandbox not in {"", FULL, REDUCED}:
            raise BadConfigError(
                f"`sandbox` is `{self.sandbox}`; it may be `{FULL}` or `{REDUCED}`"
            )

    def _check_numbers(self) -> None:
        for name in _SECONDS:
            if not re.fullmatch(r"\d*(\.\d+)?", getattr(self, name)):
                raise BadConfigError(f"`{name}` is `{getattr(self, name)}`, which is not a number")
        for name in _COUNTS:
            if not re.fullmatch(r"\d*", getattr(self, name)):
                raise BadConfigError(f"`{name}` is `{getattr(self, name)}`, which is not a number")

        if not re.fullmatch(r"\d*", self.metrics_kept_days) or (
            int(self.metrics_kept_days or 0) > MOST_METRIC_DAYS
        ):
            raise BadConfigError(
                f"`metrics_kept_days` is `{self.metrics_kept_days}`; "
                f"it may be 0 to {MOST_METRIC_DAYS}"
            )

    def _check_git_schemes(self) -> None:
        unknown = [one for one in schemes_in(self.git_schemes) if one not in GIT_SCHEMES]
        if unknown:
            raise BadConfigError(
                f"`git_schemes` has `{unknown[0]}`; it may have {', '.join(GIT_SCHEMES)}"
            )

    def _check_kafka(self) -> None:
        given = [name for name in ("kafka_user", "kafka_password") if getattr(self, name)]
        if not self.kafka and (given or self.kafka_tls or self.kafka_mechanism):
            raise BadConfigError("settings of your Kafka are given without its address, `kafka`")
        if len(given) == 1:
            raise BadConfigError("`kafka_user` and `kafka_password` are given together, or neither")
        if self.kafka_mechanism:
            self._check_mechanism()
        if self.kafka_tls not in {"", "on"}:
            raise BadConfigError(f"`kafka_tls` is `{self.kafka_tls}`; it may be `on`")

    def _check_mechanism(self) -> None:
        from narthex_stores import SASL_MECHANISMS  # noqa: PLC0415 - it loads Polars

        if self.kafka_mechanism not in SASL_MECHANISMS:
            known = ", ".join(SASL_MECHANISMS)
            raise BadConfigError(
                f"`kafka_mechanism` is `{self.kafka_mechanism}`; it may be {known}"
            )

    def _check_index_store(self) -> None:
        if not self.index_store:
            if self.index_store_password:
                raise BadConfigError("`index_store_password` is given without `index_store`")
            return
        if self.index_dir:
            raise BadConfigError(
                "both `index_store` and `index_dir` are given; indexes are in one of them"
            )
        from narthex_stores import PermanentError, parse_address  # noqa: PLC0415 - it loads Polars

        try:
            parse_address(self.index_store)
        except PermanentError as error:
            raise BadConfigError(f"`index_store`: {error}") from None


PASSED_ON = (*_SECONDS, *_COUNTS, "control_log_heads", "log_format", "run_job", "metrics_kept_days")
"""The fields whose defaults are those of the settings."""

FIELDS = tuple(field.name for field in attrs.fields(Config))


def parse_config(text: str, environment: Mapping[str, str]) -> Config:
    """Parse `config.toml`, then apply the overrides of the environment.

    Raises:
        BadConfigError: It is not TOML, has an unknown key, or a value that is not a text.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfigError(f"`config.toml` is not TOML: {error}") from None
    unknown = sorted(table.keys() - set(FIELDS))
    if unknown:
        raise BadConfigError(f"`config.toml` has `{unknown[0]}`; it may have {', '.join(FIELDS)}")
    wrong = sorted(key for key, value in table.items() if not isinstance(value, str))
    if wrong:
        raise BadConfigError(f"`{wrong[0]}` in `config.toml` must be a text")
    said = {key: str(value) for key, value in table.items()}
    for name in FIELDS:
        value = environment.get(f"NARTHEX_{name.upper()}")
        if value:
            said[name] = value
    return Config(**said)


def load_config(path: Path, environment: Mapping[str, str]) -> Config:
    """Load the configuration of an installation; a missing file counts as an empty one."""
    return parse_config(path.read_text() if path.is_file() else "", environment)
