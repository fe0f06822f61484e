"""Datasets as Airflow assets: an event at each promotion and audit, for which other DAGs may wait.

A DAG that is to run when readers read new rows of `Orders`, or when these were audited, has
`schedule=[Asset("narthex://main/Orders")]`.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, get_current_context

from narthex_plugins.platform_client import Json

SERVING: Final = Asset(name="narthex_serving", uri="narthex://serving")
"""The asset that has an event whenever readers of any branch flip."""

DATASETS: Final = AssetAlias("narthex_datasets")
"""The outlet of tasks with events of datasets, which are not known before the task runs."""


def dataset_asset(branch: str, dataset: str) -> Asset:
    """Return the Airflow asset of a dataset of a branch."""
    path = f"{quote(branch, safe='')}/{quote(dataset, safe='')}"
    return Asset(name=f"narthex/{path}", uri=f"narthex://{path}")


def announce(branch: str, datasets: Iterable[str], extra: Mapping[str, Json]) -> None:
    """Emit an event of datasets when the current task, with the outlet `DATASETS`, succeeds."""
    events = get_current_context()["outlet_events"][DATASETS]
    for dataset in datasets:
        events.add(dataset_asset(branch, dataset), extra=dict(extra))
