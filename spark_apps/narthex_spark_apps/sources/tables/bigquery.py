"""BigQuery tables: one query, whose result does not change while its pages are fetched.

BigQuery does not enforce primary keys, so all values of a row together identify it.
"""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

from google.api_core.exceptions import GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.oauth2 import service_account

from narthex._connectors import GOOGLE
from narthex._connectors.bigquery import BigQueryDataset
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    BATCH,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    try:
        with closing(connect(access)) as client:
            yield TableScan(key=(), batches=_batches(client, access, start))
    except (GoogleAPIError, GoogleAuthError) as error:
        raise TableError(str(error)) from None


def connect(access: TableAccess) -> bigquery.Client:
    """Connect to a project.

    Raises:
        SecretMissing: The key of its service account is missing.
        TableError: The secret is not a service account key.
    """
    database = access.table.database
    if not isinstance(database, BigQueryDataset):
        raise TypeError("not a dataset of BigQuery")
    try:
        key = json.loads(access.reveal(database.service_account_key, (GOOGLE,)))
        credentials = service_account.Credentials.from_service_account_info(key)
    except ValueError:
        # The error of an invalid key is replaced, because it could contain the key.
        raise TableError("the service account key is not the JSON that Google issued") from None
    return bigquery.Client(project=database.project_id, credentials=credentials)


def _batches(
    client: bigquery.Client, access: TableAccess, start: Cursor | None
) -> Iterator[list[TableRow]]:
    database = access.table.database
    if not isinstance(database, BigQueryDataset):
        raise TypeError("not a dataset of BigQuery")
    table = client.get_table(f"{database.project_id}.{database.dataset_id}.{access.table.table}")
    types = {field.name: field.field_type for field in table.schema}
    if access.cursor not in types:
        raise TableError(f"the table has no column `{access.cursor}`")
    ordered = f"`{access.cursor}`"
    if types[access.cursor] == "STRING":
        ordered = f"COLLATE({ordered}, '')"  # by bytes, whatever the column's own order is
    wanted = "IS NOT NULL" if start is None else ">= @start"
    query = (
        f"SELECT * FROM `{table.project}.{table.dataset_id}.{table.table_id}` "  # noqa: S608 (its own names)
        f"WHERE {ordered} {wanted} ORDER BY {ordered}"
    )
    parameters = [] if start is None else [_parameter(types[access.cursor], start)]
    config = bigquery.QueryJobConfig(query_parameters=parameters, use_query_cache=False)
    for page in client.query(query, job_config=config).result(page_size=BATCH).pages:
        batch: list[TableRow] = [dict(row.items()) for row in page]
        if batch:
            yield batch


def _parameter(kind: str, start: Cursor) -> bigquery.ScalarQueryParameter:
    known = {"INTEGER": "INT64", "BIGNUMERIC": "BIGNUMERIC", "NUMERIC": "NUMERIC"}
    if isinstance(start, dt.datetime) and kind == "TIMESTAMP" and start.tzinfo is None:
        start = start.replace(tzinfo=dt.UTC)
    return bigquery.ScalarQueryParameter("start", known.get(kind, kind), start)
