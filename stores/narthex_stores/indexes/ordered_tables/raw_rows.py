# mypy: disable-error-code="explicit-any"
"""Read the rows of a group one by one."""

from narthex_stores.indexes.key_layout import IndexLayout, RawRow, instant_of
from narthex_stores.indexes.ordered_tables.tables import Transaction, entries_between


def rows_between(
    layout: IndexLayout, facts: Transaction, group: bytes, first: int | None, last: int
) -> list[RawRow]:
    """Return the rows of a group in a span, both ends inclusive; None leaves the start open."""
    begin = group if first is None else group + instant_of(first)
    return layout.raw_rows(entries_between(facts, begin, group + instant_of(last + 1)), group)
