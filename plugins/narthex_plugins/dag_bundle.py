"""The bundle of this package's DAGs, for the list of DAG bundles of an existing Airflow."""

from pathlib import Path
from typing import Final

from airflow.dag_processing.bundles.base import BaseDagBundle
from typing_extensions import override

_PACKAGE: Final = Path(__file__).resolve().parent

DAGS: Final = next(
    (one for one in (_PACKAGE / "dags", _PACKAGE.parents[1] / "dags") if one.is_dir()),
    _PACKAGE / "dags",
)
"""The folder of the DAGs: in the package, and at the top of a checkout."""


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
