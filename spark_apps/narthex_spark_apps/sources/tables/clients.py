"""The clients that read tables; all but those for Postgres's protocol are optional."""

from typing import assert_never

from narthex._ir import (
    BigQueryDataset,
    Database,
    MongoDatabase,
    RedshiftDatabase,
    SnowflakeDatabase,
    SqlDatabase,
)
from narthex_spark_apps.platform.optional_clients import load_client
from narthex_spark_apps.sources.tables import postgres, redshift
from narthex_spark_apps.sources.tables.reader import ReadsTable


def reader_of(database: Database) -> ReadsTable:
    """Return the reader of a database's tables.

    Raises:
        ClientMissingError: Its client library is not installed.
    """
    match database:
        case SqlDatabase(kind="postgres"):
            return postgres.reading
        case SqlDatabase():
            return _loaded("narthex_spark_apps.sources.tables.mysql", extra="mysql")
        case RedshiftDatabase():
            return redshift.reading
        case SnowflakeDatabase():
            return _loaded("narthex_spark_apps.sources.tables.snowflake", extra="snowflake")
        case BigQueryDataset():
            return _loaded("narthex_spark_apps.sources.tables.bigquery", extra="bigquery")
        case MongoDatabase():
            return _loaded("narthex_spark_apps.sources.tables.mongodb", extra="mongodb")
        case _:
            assert_never(database)


def _loaded(module: str, *, extra: str) -> ReadsTable:
    found: ReadsTable = load_client(module, extra=extra).reading
    return found
