"""Decide which datasets reuse the log of their previous version and fill only new assets.

The log of a dataset that ends in an aggregate keeps the rows that are folded; aggregates and
windows only define how they are read. So a version that adds a window, or an aggregate of columns
that others already fold, needs at most another index, which the log fills: nothing upstream is
read again.

A higher version of the same content requests that the rows are computed again, and they are. To
readers, the new version is another dataset, whichever log it reuses.
"""

from collections.abc import Mapping

import attrs

from narthex._analysis.changes import logical
from narthex._compiler.blueprint import assets_by_dataset
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets
from narthex._compiler.log_specs import final_aggregate
from narthex._ir.entities import Carried, Dataset, Definitions


def reuse_logs(old: Definitions | None, new: Definitions) -> Definitions:
    """Set for each dataset the log that it reuses, replacing the value that it already has.

    Args:
        old: The deployed definitions with the logs that they reuse; None if nothing is deployed.
        new: All definitions that are deployed next, checked.
    """
    bare = attrs.evolve(new, datasets=tuple(map(_bare, new.datasets)))
    before = {dataset.name: dataset for dataset in old.datasets} if old is not None else {}
    may = {one.name for one in bare.datasets if _may_reuse(before.get(one.name), one)}
    if old is None or not may:
        return bare
    was, now = (
        assets_by_dataset(BlueprintBuilder(), old),
        assets_by_dataset(BlueprintBuilder(), bare),
    )
    datasets = (_reused(one, was, now) if one.name in may else one for one in bare.datasets)
    return attrs.evolve(bare, datasets=tuple(datasets))


def _bare(dataset: Dataset) -> Dataset:
    return attrs.evolve(dataset, carried=None)


def _may_reuse(old: Dataset | None, new: Dataset) -> bool:
    if old is None or final_aggregate(new) is None:
        return False
    if old.version == new.version:
        return old.carried is not None
    return logical(old) != logical(new)


def _reused(
    dataset: Dataset, was: Mapping[str, DatasetAssets], now: Mapping[str, DatasetAssets]
) -> Dataset:
    old, new = was[dataset.name], now[dataset.name]
    if new.contributions is None or old.contributions != new.contributions:
        return dataset
    return attrs.evolve(dataset, carried=Carried(new.contributions, old.data))
