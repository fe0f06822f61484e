"""The bundle of this package's DAGs, for the list of DAG bundles of an existing Airflow."""

from pathlib import Path
from typing import Final

from airflow.dag_processing.bundles.base import BaseDagBundle
from typing_extensions import override

DAGS: Final = Path(__file__).resolve().with_name("dags")
"""The folder of the DAGs, beside this module."""


class NarthexDagBundle(BaseDagBundle):
    """The DAGs of the installed package; a new version of them comes with a new package."""

    supports_versioning = False

    @property
    @override
    def path(self) -> Path:
        return DAGS

    @override
    def get_current_version(self) -> None:
        return None

    @override
    def refresh(self) -> None:
        """Do nothing: the folder changes only when the package does."""
