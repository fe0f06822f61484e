"""Decide how many partitions the log of each dataset of a commit has."""

import attrs

from narthex._ir.entities import Definitions


def decide_partitions(old: Definitions | None, new: Definitions, *, default: int) -> Definitions:
    """Set the number of partitions of each dataset.

    It is the number that the author has written; else the number of the deployed dataset of that
    name, whatever its version; else the default.

    Args:
        old: The deployed definitions; None if nothing is deployed.
        new: All definitions that are deployed next.
        default: The number of partitions of new datasets of this installation.
    """
    known = {one.name: one.log_partitions for one in old.datasets} if old is not None else {}
    return attrs.evolve(
        new,
        datasets=tuple(
            attrs.evolve(one, partitions=one.partitions or known.get(one.name, default))
            for one in new.datasets
        ),
    )
