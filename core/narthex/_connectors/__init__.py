"""The kinds of connectors: one package each, found through the registry.

`kinds` describes a kind as a value, `registry` finds it, `parts` reads what an author writes, and
`egress` and `addresses` read the hosts. Each other package is one kind: its record, the class with
which authors declare it, its checks and its policy facts.

Start with `kinesis`, then `kinds` and `registry`.
"""

from narthex._connectors.addresses import (
    GOOGLE,
    driver_options,
    kafka_targets,
    object_store,
    registry_address,
    server_at,
    sink_address,
)
from narthex._connectors.egress import (
    AddressInvalidError,
    Destination,
    EgressRules,
    HttpAddress,
    parse_host,
    parse_path,
    resolve,
)
from narthex._connectors.kinds import ConnectorKind, Deletes, FilesPlace, Input
from narthex._connectors.registry import ConnectorKindError, kind_of, kinds, sink_kind, source_kind
from narthex._connectors.stored_connections import (
    Argument,
    Connection,
    ConnectionInvalidError,
    connection_kinds,
    parameters_of,
    resolve_connections,
)

__all__ = [
    "GOOGLE",
    "AddressInvalidError",
    "Argument",
    "Connection",
    "ConnectionInvalidError",
    "ConnectorKind",
    "ConnectorKindError",
    "Deletes",
    "Destination",
    "EgressRules",
    "FilesPlace",
    "HttpAddress",
    "Input",
    "connection_kinds",
    "driver_options",
    "kafka_targets",
    "kind_of",
    "kinds",
    "object_store",
    "parameters_of",
    "parse_host",
    "parse_path",
    "registry_address",
    "resolve",
    "resolve_connections",
    "server_at",
    "sink_address",
    "sink_kind",
    "source_kind",
]
