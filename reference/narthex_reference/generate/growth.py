"""How many rows a pipeline may make of one, so that no project takes minutes to compute."""

from collections.abc import Mapping
from typing import Final

from narthex._ir import Aggregate, Changelog, DatasetRef, Explode, Join, Operator, Union

MOST: Final = 12
"""Pipelines that would make more rows of one are not drawn."""


def growth(operator: Operator, datasets: Mapping[str, int]) -> int:
    """Say about how many rows a step makes of one; `datasets` says it of those that are read."""
    match operator:
        case DatasetRef(dataset=name):
            return datasets[name]
        case Union():
            return growth(operator.input, datasets) + growth(operator.other, datasets)
        case Join():
            return growth(operator.input, datasets) + datasets[operator.right.dataset] - 1
        case Aggregate():
            # Each row comes into a window and leaves it.
            return growth(operator.input, datasets) * 3
        case Changelog() | Explode():
            return growth(operator.input, datasets) * 2
        case _:
            return growth(operator.input, datasets)
