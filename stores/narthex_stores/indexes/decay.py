"""Rows whose values decay by themselves, as of the instants at which they are looked up."""

from collections.abc import Sequence

from narthex._ir import LogSpec
from narthex._runtime.steps import faded
from narthex_stores.indexes.protocol import Found


def as_they_are(
    log: LogSpec, found: list[Found | None], as_of: Sequence[int]
) -> list[Found | None]:
    """Give what was found with the values that it has at these instants."""
    if not log.decays:
        return found
    return [
        None
        if one is None
        else Found(values=faded(log, one.values, one.event_time, at), event_time=one.event_time)
        for one, at in zip(found, as_of, strict=True)
    ]
