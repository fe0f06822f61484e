"""One installation: its layout, configuration, ports, secrets and settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from narthex.settings import FULL, Settings
from narthex_stack.errors import NotHereError
from narthex_stack.install.config import PASSED_ON, Config, load_config
from narthex_stack.install.credentials import Credentials, ensure_credentials
from narthex_stack.install.layout import HomeLayout
from narthex_stack.install.operator_files import ALERTS, POLICY, ensure_file
from narthex_stack.machine.files import load_object, store_json
from narthex_stack.machine.jars import CONNECTORS, cache_dir
from narthex_stack.machine.ports import HOST, chosen_ports
from narthex_stack.servers import kafka
from narthex_stack.servers.postgres import dsn

FEW_PARTITIONS: Final = 2
"""The default on one machine, where the work on a log is not divided."""


@attrs.frozen(kw_only=True)
class Installation:
    """Everything that is decided before a service starts."""

    layout: HomeLayout
    config: Config
    ports: Mapping[str, int]
    credentials: Credentials
    settings: Settings
    cache: Path


def load_installation(
    layout: HomeLayout,
    *,
    environment: Mapping[str, str] | None = None,
    files_root: Path | None = None,
) -> Installation:
    """Load an installation, decide what is not decided yet, and write `services.json`.

    Raises:
        BadConfigError: `config.toml`, or an environment variable, has an invalid value.
        NotHereError: No root of files is set, and the working directory no longer exists.
    """
    found = os.environ if environment is None else environment
    layout.make()
    config = load_config(layout.config, found)
    ports = chosen_ports(layout.ports)
    credentials = ensure_credentials(layout.secrets)
    cache = cache_dir(found)
    settings = decide(
        layout,
        config=config,
        ports=ports,
        credentials=credentials,
        jars_dir=cache / "jars" / CONNECTORS.name,
        files_root=files_root or _files_root(layout, config),
    )
    values = {name: str(value) for name, value in attrs.asdict(settings, recurse=False).items()}
    store_json(layout.services, dict(values))
    if not config.policy_file:
        ensure_file(layout.policy, POLICY)
    if not config.alerts_file:
        ensure_file(layout.alerts, ALERTS)
    return Installation(
        layout=layout,
        config=config,
        ports=ports,
        credentials=credentials,
        settings=settings,
        cache=cache,
    )


def decide(
    layout: HomeLayout,
    *,
    config: Config,
    ports: Mapping[str, int],
    credentials: Credentials,
    jars_dir: Path,
    files_root: Path,
) -> Settings:
    """Return the settings: configured values win over services that are started here."""
    return Settings(
        home=layout.home,
        install_id=credentials.install_id,
        ledger_dsn=config.ledger_dsn
        or dsn(
            user="narthex",
            password=credentials.ledger_password,
            port=ports["postgres"],
            database="narthex",
        ),
        kafka=config.kafka or f"{HOST}:{ports['kafka']}",
        kafka_user=config.kafka_user if config.kafka else kafka.USER,
        kafka_password=config.kafka_password if config.kafka else credentials.kafka_password,
        kafka_mechanism=config.kafka_mechanism or "PLAIN",
        kafka_tls=config.kafka_tls,
        server_url=config.server_url or f"http://{HOST}:{ports['server']}",
        token=config.token or credentials.token,
        dags_token=config.dags_token or config.token or credentials.dags_token,
        airflow_url=config.airflow_url or f"http://{HOST}:{ports['airflow']}",
        airflow_user=config.airflow_user or "admin",
        airflow_password=config.airflow_password or credentials.airflow_password,
        index_dir=config.index_dir or layout.home / "index",
        index_store=config.index_store,
        index_store_password=config.index_store_password,
        history_dir=config.history_dir or str(layout.home / "history"),
        checkpoint_dir=config.checkpoint_dir or layout.home / "checkpoints",
        snapshot_dir=config.snapshot_dir or str(layout.home / "snapshots"),
        files_root=files_root,
        spark_master=config.spark_master or "local[512]",
        spark_conf=config.spark_conf,
        spark_secret_file=config.spark_secret_file,
        spark_ui_port=config.spark_ui_port or 0,
        secrets_dir=config.secrets_dir,
        ca_file=config.ca_file,
        policy_file=config.policy_file or layout.policy,
        alerts_file=config.alerts_file or layout.alerts,
        sso_file=config.sso_file or layout.sso,
        partitions=int(config.partitions or FEW_PARTITIONS),
        definitions_root=config.definitions_root or layout.home / "definitions",
        git_schemes=config.git_schemes,
        package_index=config.package_index,
        sandbox=config.sandbox or FULL,
        reads_url=f"http://{HOST}:{ports['reads']}" if config.reads else "",
        jars_dir=jars_dir,
        **{name: getattr(config, name) for name in PASSED_ON if getattr(config, name)},
    )


def _files_root(layout: HomeLayout, config: Config) -> Path:
    """Return the configured root; else that of a running installation; else this directory."""
    if config.files_root:
        return Path(config.files_root).resolve()
    stored = load_object(layout.services).get("files_root")
    is_kept = isinstance(stored, str) and layout.operator.is_file()
    return Path(str(stored)) if is_kept else working_directory()


def working_directory() -> Path:
    """Return the directory in which the command was run.

    Raises:
        NotHereError: The directory was deleted since.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise NotHereError("the working directory was deleted; run this in another") from None
