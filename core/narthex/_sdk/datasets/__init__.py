"""Datasets and pipelines as authors declare them.

`datasets` is the decorator, `pipelines` and `steps` record the operators that a pipeline calls.
"""

from narthex._sdk.datasets.datasets import Dataset, dataset_entity
from narthex._sdk.datasets.steps import Rows

__all__ = [
    "Dataset",
    "Rows",
    "dataset_entity",
]
