"""The plan of services: which of them start on this machine, and which are external."""

from collections.abc import Iterable

import attrs

from narthex_stack.install.config import Config
from narthex_stack.install.installation import Installation
from narthex_stack.local_services import airflow, platform_services
from narthex_stack.local_services.groups import GROUPS
from narthex_stack.processes.service import Service
from narthex_stack.servers import kafka, postgres


@attrs.frozen(kw_only=True)
class External:
    """A part of the platform that is not started, because its address is configured.

    Attributes:
        group: The name of its group, or of the store.
        address: Its address, without passwords.
        needed_by: The groups that need it.
    """

    group: str
    address: str
    needed_by: frozenset[str] = attrs.field(
        default=attrs.Factory(lambda external: frozenset({external.group}), takes_self=True)
    )


def externals(config: Config) -> tuple[External, ...]:
    """Return the external groups, and the index store if it is external."""
    # PostgreSQL also has Airflow's database, unless that is external as well.
    has_database = config.ledger_dsn and (config.airflow_dsn or config.airflow_url)
    given = {
        "postgres": config.ledger_dsn.rpartition("@")[2] if has_database else "",
        "kafka": config.kafka,
        "airflow": config.airflow_url,
        "server": config.server_url,
    }
    found = [External(group=group, address=address) for group, address in given.items() if address]
    if config.index_store:
        readers = frozenset({"server", "reads", "supervisor"})
        found.append(External(group="index store", address=config.index_store, needed_by=readers))
    return tuple(found)


def with_needs(groups: Iterable[str]) -> tuple[str, ...]:
    """Return the given groups and all that they need to start."""
    needs = {
        "airflow": {"postgres"},
        "server": {"postgres", "kafka"},
        "reads": {"postgres", "kafka", "server"},
        "supervisor": {"postgres", "kafka", "server"},
    }
    wanted = set(groups)
    for group in tuple(wanted):
        wanted |= needs.get(group, set())
    return tuple(group for group in GROUPS if group in wanted)


def services(installation: Installation, groups: Iterable[str]) -> tuple[Service, ...]:
    """Return the services that start here, in the order of starting."""
    elsewhere = {external.group for external in externals(installation.config)}
    wanted = [group for group in with_needs(groups) if group not in elsewhere]
    return tuple(found for group in wanted for found in _of(installation, group))


def _of(installation: Installation, group: str) -> tuple[Service, ...]:
    match group:
        case "postgres":
            return (_postgres(installation),)
        case "kafka":
            return (kafka.service(broker(installation)),)
        case "airflow":
            return airflow.services(installation)
        case "server":
            return (platform_services.server(installation),)
        case "reads":
            return platform_services.read_processes(installation)
        case _:
            return platform_services.supervisors(installation)


def cluster(installation: Installation) -> postgres.Cluster:
    """Return the PostgreSQL of an installation."""
    return postgres.cluster(
        installation.layout.home,
        install_id=installation.credentials.install_id,
        port=installation.ports["postgres"],
        password=installation.credentials.postgres_password,
    )


def broker(installation: Installation) -> kafka.KafkaNode:
    """Return the Kafka of an installation."""
    return kafka.KafkaNode(
        directory=installation.layout.home / "kafka",
        port=installation.ports["kafka"],
        password=installation.credentials.kafka_password,
        controller_port=installation.ports["kafka_controller"],
        cache=installation.cache,
    )


def _postgres(installation: Installation) -> Service:
    keys = installation.credentials
    databases = (
        postgres.ServiceDatabase(name="narthex", password=keys.ledger_password),
        postgres.ServiceDatabase(name="airflow", password=keys.airflow_db_password),
    )
    return postgres.service(
        cluster(installation), databases=databases, home=installation.layout.home
    )
