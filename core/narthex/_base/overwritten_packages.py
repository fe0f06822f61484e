"""The check that no other distribution has overwritten the files of `pyspark`."""

from importlib import metadata
from typing import Final

_CLIENT: Final = "pyspark-client"


class OverwrittenPackageError(RuntimeError):
    """Two installed distributions have the same files; the message has the remedy."""


def require_whole_pyspark() -> None:
    """Check that `pyspark-client` is not installed beside `pyspark`.

    It has the same 366 files in other versions, so that Spark fails in odd ways. Releases 6 and
    later of Airflow's provider for Spark depend on it.

    Raises:
        OverwrittenPackageError: Both are installed.
    """
    client, spark = _version(_CLIENT), _version("pyspark")
    if client and spark:
        raise OverwrittenPackageError(
            f"`{_CLIENT}` {client} has overwritten files of `pyspark` {spark}; run "
            f"`pip uninstall --yes {_CLIENT} apache-airflow-providers-apache-spark`, then "
            f"`pip install --force-reinstall --no-deps pyspark=={spark}` and "
            "`pip install 'apache-airflow-providers-apache-spark>=5.3,<6'`"
        )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
