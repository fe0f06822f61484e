"""When queries last read something, as the ledger stores it."""

import datetime as dt
import enum
from collections.abc import Mapping
from typing import TypeAlias

import attrs


class ReadKind(enum.Enum):
    """The kinds of things that queries read."""

    BRANCH = "branch"
    DATASET = "dataset"
    FEATURE = "feature"


ReadEntity: TypeAlias = tuple[ReadKind, str]
"""A dataset, or a feature by its full name; a branch has no name here."""

WHOLE_BRANCH: ReadEntity = (ReadKind.BRANCH, "")

ReadAges: TypeAlias = Mapping[tuple[str, ReadEntity], dt.timedelta]
"""How long ago entities were read, by the name of their branch and themselves."""


@attrs.frozen(kw_only=True)
class LastRead:
    """When an entity of a branch was last read.

    Attributes:
        counted_since: Since when that is counted: since the entity was first seen among what
            readers of the branch read.
        read_at: The newest known read, to ten minutes; None if there was none since then.
    """

    counted_since: dt.datetime
    read_at: dt.datetime | None
