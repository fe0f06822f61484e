# mypy: disable-error-code="explicit-any"
"""Aggregates with Fennel's refusals: exact unique counts and ordered values are not its own."""

from functools import wraps
from typing import Any

from narthex import datasets
from narthex.compat.errors import FennelError

__all__ = ["Count", "Distinct"]


@wraps(datasets.Count, updated=())
def Count(**given: Any) -> datasets.Count:  # noqa: N802 (Fennel's name)
    """Count rows, or approximately the different values of a column.

    Raises:
        FennelError: It counts different values exactly.
    """
    if given.get("unique") and not given.get("approx"):
        raise FennelError("Exact unique counts are not yet supported, please set approx=True")
    return datasets.Count(**given)


@wraps(datasets.Distinct, updated=())
def Distinct(**given: Any) -> datasets.Distinct:  # noqa: N802 (Fennel's name)
    """Collect the different values of a column.

    Raises:
        FennelError: Their order matters.
    """
    if given.get("unordered") is False:
        raise FennelError("Distinct requires unordered=True")
    return datasets.Distinct(**given)
