"""Decide which datasets reuse the log of their previous version and fill only new assets.

The log of a dataset that ends in an aggregate keeps the rows that are folded; aggregates and
windows only define how they are read. So a version that adds a window, or an aggregate of columns
that others already fold, needs at most another index, which the log fills: nothing upstream is
read again.

A higher version of the same content requests that the rows are computed again, and they are. To
readers, the new version is another dataset, whichever log it reuses.

Each commit records the logs of its datasets as they were compiled, and the next one compares with
these records, not with what the present compiler would make of the deployed definitions.
"""

import attrs

from narthex._analysis.changes import logical
from narthex._compiler.blueprint import assets_by_dataset
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets
from narthex._compiler.log_specs import final_aggregate
from narthex._ir.entities import Carried, Dataset, Definitions


def reuse_logs(old: Definitions | None, new: Definitions) -> Definitions:
    """Record for each dataset which log it has, a reused one or its own; ignore earlier records.

    Args:
        old: The deployed definitions with the logs that they have; None if nothing is deployed.
        new: All definitions that are deployed next, checked.
    """
    bare = attrs.evolve(new, datasets=tuple(map(_bare, new.datasets)))
    if all(final_aggregate(dataset) is None for dataset in bare.datasets):
        return bare
    before = {dataset.name: dataset for dataset in old.datasets} if old is not None else {}
    now = assets_by_dataset(BlueprintBuilder(), bare)
    datasets = (_recorded(before.get(one.name), one, now[one.name]) for one in bare.datasets)
    return attrs.evolve(bare, datasets=tuple(datasets))


def _bare(dataset: Dataset) -> Dataset:
    return attrs.evolve(dataset, carried=None)


def _recorded(old: Dataset | None, new: Dataset, assets: DatasetAssets) -> Dataset:
    if assets.contributions is None:
        return new
    known = None if old is None or not _may_reuse(old, new) else old.carried
    if known is not None and known.contributions == assets.contributions:
        return attrs.evolve(new, carried=known)
    return attrs.evolve(new, carried=Carried(assets.contributions, assets.data))


def _may_reuse(old: Dataset, new: Dataset) -> bool:
    return old.version == new.version or logical(old) != logical(new)
