"""Names of datasets by the naming rules of OpenLineage: a namespace, and a name in it.

No name has a credential: definitions name secrets and never contain them, and the login of an
address is left out.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import attrs
from openlineage.client.naming.dataset import (
    GCS,
    S3,
    BigQuery,
    DatasetNaming,
    Kafka,
    LocalFileSystem,
    MySQL,
    Postgres,
    PubSubNaming,
    PubSubResourceType,
    Redshift,
)

from narthex._connectors.bigquery import BigQueryDataset
from narthex._connectors.http import HttpPath
from narthex._connectors.kinesis import KinesisStream
from narthex._connectors.mongo import MongoDatabase
from narthex._connectors.pubsub import PubSubTopic
from narthex._connectors.redshift import RedshiftDatabase
from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir import Connector, Files, KafkaTopic, SqlDatabase, Table, WebhookEndpoint
from narthex.settings import Settings

_KAFKA_PORT: Final = "9092"
_REDSHIFT_HOST: Final = re.compile(
    r"(?P<cluster>[^.]+)\.[^.]+\.(?P<region>[^.]+)\.redshift\.amazonaws\.com"
)


class DatasetName(NamedTuple):
    """A dataset as OpenLineage identifies it."""

    namespace: str
    name: str


@attrs.frozen(kw_only=True)
class LineageNames:
    """The names of an installation's jobs and datasets.

    Attributes:
        install_id: The id of the installation.
        namespace: The namespace of its jobs.
        kafka: The bootstrap servers of the platform's own broker.
        files_root: The directory that relative paths of files start from.
        history_dir: The place of the tables of histories.
    """

    install_id: str
    namespace: str
    kafka: str
    files_root: str
    history_dir: str

    @classmethod
    def of(cls, settings: Settings, *, namespace: str) -> "LineageNames":
        """Return the names of the installation that settings describe."""
        return cls(
            install_id=settings.install_id,
            namespace=namespace,
            kafka=settings.kafka,
            files_root=str(settings.files_root),
            history_dir=settings.history_dir,
        )

    def own(self, name: str) -> DatasetName:
        """Return the name of something that is known in this installation only."""
        return DatasetName(f"narthex://{self.install_id}", name)

    def dataset(self, branch: str, dataset: str) -> DatasetName:
        """Return the name of a dataset of a branch."""
        return self.own(f"{branch}.{dataset}")

    def topic(self, topic: str, servers: str = "") -> DatasetName:
        """Return the name of a topic; by default, of one of the platform's own broker."""
        first = (servers or self.kafka).split(",")[0].strip()
        host, _, port = first.rpartition(":") if ":" in first else (first, "", _KAFKA_PORT)
        return _named(Kafka(host, port, topic))

    def history(self, physical_name: str) -> DatasetName:
        """Return the name of the table of a dataset's history."""
        return self._file(f"{self.history_dir.rstrip('/')}/{physical_name}")

    def connector(self, connector: Connector) -> DatasetName:
        """Return the name of what a source reads or a sink writes."""
        match connector:
            case WebhookEndpoint(webhook=webhook, endpoint=endpoint):
                return self.own(f"webhook/{webhook}/{endpoint}")
            case KafkaTopic(topic=topic, bootstrap_servers=servers):
                return self.topic(topic, servers)
            case Files(path=path):
                return self._file(path)
            case Table():
                return self._table(connector)
            case KinesisStream(stream_arn=arn):
                # arn:aws:kinesis:REGION:ACCOUNT:stream/NAME
                namespace, _, name = arn.rpartition(":")
                return DatasetName(namespace, name)
            case PubSubTopic(project_id=project, topic=topic):
                return _named(PubSubNaming(PubSubResourceType.TOPIC, project, topic))
            case HttpPath(host=str(host), endpoint=endpoint):
                return DatasetName(_without_login(host), urlsplit(endpoint).path or "/")
            case _:
                return self._unknown(connector)

    def _unknown(self, connector: object) -> DatasetName:
        name = getattr(connector, "name", "")
        return self.own(f"connector/{type(connector).__name__}/{name}")

    def _file(self, path: str) -> DatasetName:
        parts = urlsplit(path)
        place = parts.path.lstrip("/") or "/"
        match parts.scheme:
            case "s3" | "s3a" | "s3n":
                return _named(S3(parts.netloc, place))
            case "gs" | "gcs":
                return _named(GCS(parts.netloc, place))
            case "" if path.startswith("/"):
                return _named(LocalFileSystem(path))
            case "":
                return _named(LocalFileSystem(f"{self.files_root.rstrip('/')}/{path}"))
            case "file":
                return _named(LocalFileSystem(parts.path))
            case scheme:
                return DatasetName(f"{scheme}://{parts.netloc.rpartition('@')[2]}", place)

    def _table(self, table: Table) -> DatasetName:
        name = table.table
        match table.database:
            case SqlDatabase(kind="postgres", host=host, port=port, db_name=db_name):
                schema, _, bare = name.rpartition(".")
                return _named(Postgres(host, str(port), db_name, schema or "public", bare))
            case SqlDatabase(kind="mysql", host=host, port=port, db_name=db_name):
                return _named(MySQL(host, str(port), db_name, name))
            case SnowflakeDatabase(account=account, db_name=db_name, schema=schema):
                return DatasetName(f"snowflake://{account}", f"{db_name}.{schema}.{name}")
            case BigQueryDataset(project_id=project, dataset_id=dataset):
                return _named(BigQuery(project, dataset, name))
            case RedshiftDatabase(host=host, port=port, db_name=db_name, schema=schema):
                return _redshift(host, port, f"{db_name}.{schema}.{name}")
            case MongoDatabase(host=host, db_name=db_name):
                place = host.rpartition("//")[2].rpartition("@")[2].partition("?")[0]
                return DatasetName(f"mongodb://{place.rstrip('/')}", f"{db_name}.{name}")
            case database:
                return self._unknown(database)


def _redshift(host: str, port: int, name: str) -> DatasetName:
    found = _REDSHIFT_HOST.fullmatch(host)
    if found is None:
        return DatasetName(f"redshift://{host}:{port}", name)
    return _named(Redshift(found["cluster"], found["region"], str(port), *name.split(".", 2)))


def _without_login(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _named(naming: DatasetNaming) -> DatasetName:
    return DatasetName(naming.get_namespace(), naming.get_name())
