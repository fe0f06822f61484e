"""Collections of MongoDB."""

import re
from collections.abc import Mapping
from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import options
from narthex._connectors.egress import Destination, parse_target, parse_targets
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts, Secret
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, Database, Table

__all__ = ["KIND", "Mongo", "MongoAddress", "MongoDatabase", "mongo_address"]


ATLAS: Final = ".mongodb.net"
"""The suffix of Atlas hosts, each the name of a whole cluster that an SRV lookup resolves."""

MONGO_PORT: Final = 27017
MONGO_OPTIONS: Final = frozenset(
    {"authSource", "directConnection", "readPreference", "replicaSet", "ssl", "tls"}
)
"""The options of the driver that a definition may set; none names a file or a host."""

_SCHEME: Final = re.compile(r"(mongodb(?:\+srv)?)://(.*)", re.DOTALL)


@record
@attrs.frozen(kw_only=True)
class MongoDatabase(Database):
    """A MongoDB database; its tables are collections."""

    name: str
    host: str
    db_name: str
    username: Credential
    password: Credential


@attrs.frozen
class Mongo:
    """A database of MongoDB; credentials by reference, `Secret("name")`."""

    name: str
    host: str
    db_name: str
    username: Credential = attrs.field(repr=False)
    password: Credential = attrs.field(repr=False)

    def collection(self, collection_name: str, cursor: str) -> Table:
        """Declare one collection with a field that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or a credential is inline.
        """
        parts = Parts("Mongo")
        made = Table(
            database=MongoDatabase(
                name=parts.name(self.name),
                host=parts.address(self.host, "host"),
                db_name=parts.text(self.db_name, "`db_name`"),
                username=parts.needed(self.username, "username"),
                password=parts.needed(self.password, "password"),
            ),
            table=parts.text(collection_name, "`collection_name`"),
            cursor=parts.text(cursor, "`cursor`"),
        )
        parts.report()
        return made

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, host_of(name), "db", Secret("user"), Secret("password"))


@attrs.frozen(kw_only=True)
class MongoAddress:
    """The address of a MongoDB deployment.

    Attributes:
        targets: Its hosts; with `is_srv`, the one name that an SRV lookup resolves.
        options: Options from `MONGO_OPTIONS`.
    """

    targets: tuple[Destination, ...]
    is_srv: bool
    options: Mapping[str, str]

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        chosen = self.options.get("tls", self.options.get("ssl"))
        return self.is_srv if chosen is None else chosen == "true"

    @property
    def url(self) -> str:
        """The address in the form that the driver reads."""
        scheme = "mongodb+srv" if self.is_srv else "mongodb"
        hosts = ",".join(
            str(Destination(target.host) if self.is_srv else target) for target in self.targets
        )
        more = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"{scheme}://{hosts}/" + (f"?{more}" if more else "")


def mongo_address(host: str) -> MongoAddress:
    """Read the host of a MongoDB deployment: names, or a whole address with options.

    Raises:
        AddressInvalidError: A host is not one, or an option is not in `MONGO_OPTIONS`.
    """
    given = _SCHEME.fullmatch(host)
    scheme, rest = (given[1], given[2]) if given else ("", host)
    hosts, _, more = rest.partition("?")
    hosts = hosts.removesuffix("/")
    is_srv = scheme == "mongodb+srv" or (
        not scheme and hosts.endswith(ATLAS) and ":" not in hosts and "," not in hosts
    )
    if is_srv:
        targets: tuple[Destination, ...] = (attrs.evolve(parse_target(hosts), port=MONGO_PORT),)
    else:
        targets = parse_targets(hosts, default_port=MONGO_PORT)
    return MongoAddress(targets=targets, is_srv=is_srv, options=options(more, MONGO_OPTIONS))


KIND: Final = DatabaseKind(
    name="mongo",
    title="MongoDB",
    text="Collections of MongoDB, read by a field that grows with each change.",
    reaches="The hosts of the deployment, with the name and the password.",
    record=MongoDatabase,
    declared_by=((Mongo, "collection"),),
    identity=lambda database: f"mongo:{database.host}/{database.db_name}",
    targets=lambda database: mongo_address(database.host).targets,
    client="narthex_spark_apps.sources.tables.mongodb:reading",
    install="narthex[mongodb]",
).kind()
