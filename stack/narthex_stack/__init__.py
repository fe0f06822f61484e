"""The services of one machine: started, watched, restarted, stopped."""

from narthex_stack.errors import NotStartedError, StackError
from narthex_stack.jars import BROKER, CONNECTORS, JarSet, cache_dir, resolve
from narthex_stack.java import java_home
from narthex_stack.local import PostgresServer, kafka_broker, postgres_server
from narthex_stack.stack import Stack
from narthex_stack.status import ServiceStatus, State, Status

__all__ = [
    "BROKER",
    "CONNECTORS",
    "JarSet",
    "NotStartedError",
    "PostgresServer",
    "ServiceStatus",
    "Stack",
    "StackError",
    "State",
    "Status",
    "cache_dir",
    "java_home",
    "kafka_broker",
    "postgres_server",
    "resolve",
]
