"""Limit the rows that a pipeline creates per row, so that no project takes minutes to compute."""

from collections.abc import Mapping
from typing import Final

from narthex._ir import Aggregate, Changelog, DatasetRef, Explode, Join, Operator, Union

MOST: Final = 12
"""The greatest number of rows that a drawn pipeline creates per row."""


def growth(operator: Operator, datasets: Mapping[str, int]) -> int:
    """Return about how many rows a step creates per sent row; `datasets` has those of inputs."""
    match operator:
        case DatasetRef(dataset=name):
            return datasets[name]
        case Union():
            return growth(operator.input, datasets) + growth(operator.other, datasets)
        case Join():
            return growth(operator.input, datasets) + datasets[operator.right.dataset] - 1
        case Aggregate():
            # Each row enters a window and leaves it.
            return growth(operator.input, datasets) * 3
        case Changelog() | Explode():
            return growth(operator.input, datasets) * 2
        case _:
            return growth(operator.input, datasets)
