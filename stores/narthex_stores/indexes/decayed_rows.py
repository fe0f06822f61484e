"""Rows with decayed values, as of the instants at which they are looked up."""

from collections.abc import Sequence

from narthex._ir import LogSpec
from narthex._runtime.steps import decayed
from narthex_stores.indexes.protocol import LookupResult


def decayed_rows(
    log: LogSpec, found: list[LookupResult | None], as_of: Sequence[int]
) -> list[LookupResult | None]:
    """Return the found rows with their values decayed to these instants."""
    if not log.decays:
        return found
    return [
        None
        if one is None
        else LookupResult(
            values=decayed(log, one.values, one.event_time, at), event_time=one.event_time
        )
        for one, at in zip(found, as_of, strict=True)
    ]
