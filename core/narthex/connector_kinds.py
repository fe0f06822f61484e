"""For packages that add a kind of connector: what a kind is made of.

A kind is a `ConnectorKind`. Its package names it in the entry-point group `narthex.connectors`:

    [project.entry-points."narthex.connectors"]
    line_files = "line_files:KIND"

The recipe in `docs/recipes.md` explains each part. Authors need `narthex.connectors` instead.
"""

from narthex._base.records import record
from narthex._connectors.egress import AddressInvalidError, Destination, parse_host, parse_targets
from narthex._connectors.kinds import (
    ROWS,
    ROWS_AND_ENVELOPES,
    ConnectorFault,
    ConnectorKind,
    EndpointPlace,
    FilesPlace,
    Input,
    Outlet,
    PolicyFacts,
    RemotePlace,
    SharedPlace,
    SinkKind,
    SourceKind,
    TopicPlace,
)
from narthex._connectors.parts import Parts
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Connector, Credential, Database, Table

__all__ = [
    "ROWS",
    "ROWS_AND_ENVELOPES",
    "AddressInvalidError",
    "Connector",
    "ConnectorFault",
    "ConnectorKind",
    "Credential",
    "Database",
    "DatabaseKind",
    "Destination",
    "EndpointPlace",
    "FilesPlace",
    "Input",
    "Outlet",
    "Parts",
    "PolicyFacts",
    "RemotePlace",
    "SharedPlace",
    "SinkKind",
    "SourceKind",
    "Table",
    "TopicPlace",
    "parse_host",
    "parse_targets",
    "record",
]
