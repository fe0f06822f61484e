"""AWS clients that assume a role that an author names.

The address of AWS and the platform's own credentials come from the `AWS_…` variables of the
environment, or from the role of the machine.
"""

from typing import Any

import boto3
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.session import get_session

from narthex._connectors.redshift import RedshiftDatabase

SESSION = "narthex"
CONNECT_S = 10
_RETRIES = 3


def client_of(service: str, *, role_arn: str | None, region: str | None) -> Any:  # type: ignore[explicit-any]
    """Return a client of one service; it assumes the role at its first call, and renews in time."""
    ours = get_session()
    session = get_session()
    if region is not None:
        ours.set_config_variable("region", region)
    if role_arn is not None:
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=ours.create_client,
            source_credentials=ours.get_credentials(),
            role_arn=role_arn,
            extra_args={"RoleSessionName": SESSION},
        )
        session._credentials = DeferredRefreshableCredentials(  # noqa: SLF001 (no public API)
            method="assume-role", refresh_using=fetcher.fetch_credentials
        )
    retries = Config(
        connect_timeout=CONNECT_S, retries={"mode": "standard", "max_attempts": _RETRIES}
    )
    return boto3.Session(botocore_session=session, region_name=region).client(
        service, config=retries
    )


def region_of(arn: str) -> str | None:
    """Return the region in an ARN."""
    parts = arn.split(":")
    return parts[3] or None if len(parts) > 3 else None  # noqa: PLR2004 (arn:aws:service:region)


def redshift_account(database: RedshiftDatabase) -> tuple[str, str]:
    """Return a role's user name and password in a Redshift database, valid for an hour."""
    cluster, *rest = database.host.split(".")
    if "redshift-serverless" in rest:
        client = client_of("redshift-serverless", role_arn=database.role_arn, region=rest[1])
        credentials = client.get_credentials(workgroupName=cluster, dbName=database.db_name)
        return credentials["dbUser"], credentials["dbPassword"]
    client = client_of("redshift", role_arn=database.role_arn, region=rest[1] if rest else None)
    credentials = client.get_cluster_credentials_with_iam(
        ClusterIdentifier=cluster, DbName=database.db_name
    )
    return credentials["DbUser"], credentials["DbPassword"]
