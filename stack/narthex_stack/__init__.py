"""The platform on one machine: starts, watches, restarts and stops its services.

* `cli`: `narthex up` and related commands; `operator`: the process that keeps services running.
* `local_services`: the plan of services; `install`: directories, configuration and credentials.
* `servers`: PostgreSQL and Kafka; `processes`: starting and finding processes.
* `machine`: files, ports, Java and jars.

Start with `operator.stack`, then `local_services.service_plan`.
"""

from narthex_stack.errors import NotStartedError, StackError
from narthex_stack.machine.jars import BROKER, CONNECTORS, JarSet, cache_dir, resolve
from narthex_stack.machine.java import java_home
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.status import ServiceState, ServiceStatus, Status
from narthex_stack.servers.local_servers import PostgresServer, kafka_broker, postgres_server

__all__ = [
    "BROKER",
    "CONNECTORS",
    "JarSet",
    "NotStartedError",
    "PostgresServer",
    "ServiceState",
    "ServiceStatus",
    "Stack",
    "StackError",
    "Status",
    "cache_dir",
    "java_home",
    "kafka_broker",
    "postgres_server",
    "resolve",
]
