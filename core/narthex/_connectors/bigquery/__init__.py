"""Tables of BigQuery."""

from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import GOOGLE
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts, Secret
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, Database, Table

__all__ = ["KIND", "BigQuery", "BigQueryDataset"]


@record
@attrs.frozen(kw_only=True)
class BigQueryDataset(Database):
    """A dataset of a BigQuery project."""

    name: str
    project_id: str
    dataset_id: str
    service_account_key: Credential


@attrs.frozen
class BigQuery:
    """A dataset of a BigQuery project; its key by reference, `Secret("name")`."""

    name: str
    project_id: str
    dataset_id: str
    service_account_key: Credential = attrs.field(repr=False)

    def table(self, table_name: str, cursor: str) -> Table:
        """Declare one table with a column that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or the key is inline.
        """
        parts = Parts("BigQuery")
        made = Table(
            database=BigQueryDataset(
                name=parts.name(self.name),
                project_id=parts.text(self.project_id, "`project_id`"),
                dataset_id=parts.text(self.dataset_id, "`dataset_id`"),
                service_account_key=parts.needed(self.service_account_key, "service_account_key"),
            ),
            table=parts.text(table_name, "`table_name`"),
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
        return cls(name, host_of(name), "dataset", Secret("key"))


KIND: Final = DatabaseKind(
    name="bigquery",
    title="BigQuery",
    text="Tables of BigQuery, read by a cursor column.",
    reaches="Google's own endpoints, with the key of the service account.",
    record=BigQueryDataset,
    declared_by=((BigQuery, "table"),),
    identity=lambda database: f"bigquery:{database.project_id}/{database.dataset_id}",
    targets=lambda _: (GOOGLE,),
    what="`service_account_key`",
    is_fixed=True,
    client="narthex_spark_apps.sources.tables.bigquery:reading",
    install="narthex[bigquery]",
).kind()
