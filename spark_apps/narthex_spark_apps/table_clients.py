"""Which client reads the tables of a database; those beyond Postgres's protocol are optional."""

from typing import assert_never

from narthex.connections import (
    BigQueryDataset,
    Database,
    MongoDatabase,
    RedshiftDatabase,
    SnowflakeDatabase,
    SqlDatabase,
)
from narthex_spark_apps import table_postgres, table_redshift
from narthex_spark_apps.optional_clients import load_client
from narthex_spark_apps.table_readings import ReadsTable


def reader_of(database: Database) -> ReadsTable:
    """Give what reads the tables of a database.

    Raises:
        ClientMissingError: Its client library is not installed.
    """
    match database:
        case SqlDatabase(kind="postgres"):
            return table_postgres.reading
        case SqlDatabase():
            return _loaded("table_mysql", extra="mysql")
        case RedshiftDatabase():
            return table_redshift.reading
        case SnowflakeDatabase():
            return _loaded("table_snowflake", extra="snowflake")
        case BigQueryDataset():
            return _loaded("table_bigquery", extra="bigquery")
        case MongoDatabase():
            return _loaded("table_mongo", extra="mongodb")
        case _:
            assert_never(database)


def _loaded(module: str, *, extra: str) -> ReadsTable:
    found: ReadsTable = load_client(module, extra=extra).reading
    return found
