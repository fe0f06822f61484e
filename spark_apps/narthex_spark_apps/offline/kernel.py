"""The parts that kernels of lookups share: their questions, their answers, and their form.

A kernel looks up many keys as of instants in fact states of a dataset that are in memory. Drivers
call it with all states (`look_up_in_memory`); executors of Spark call it bucket by bucket
(`bucket_job`).
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self, TypeAlias

import attrs
import polars as pl

from narthex._columnar_query import EVENT_TIME, FOUND, key_name, stored_series, value_name
from narthex._ir import Column, IndexSpec, types

ReadStates: TypeAlias = Callable[[Sequence[str]], pl.DataFrame]
"""Reads columns of the fact states of a history below some offsets, in any order."""

KEYS: Final = (
    types.Int,
    types.Str,
    types.Bool,
    types.Bytes,
    types.Datetime,
    types.Date,
    types.Decimal,
)
"""The types of keys whose equal cells are equal elements of a series."""

AS_OF: Final = "as_of"
QUESTION: Final = "question"
"""The place of a key among those that are looked up."""

ALIVE, ROW_ID, VERSION = "alive", "row_id", "version"
"""Columns of fact states, beside `narthex._columnar_query.EVENT_TIME`."""


class MissingVersionsError(Exception):
    """Two states are at one instant of a key, and were read without the versions to order them."""


class InexactError(ValueError):
    """Values of which a kernel cannot compute the exact answer."""


class Kernel(Protocol):
    """Fact states of a dataset, all of them or all with some of the keys, ready for lookups."""

    @classmethod
    def columns(cls, spec: IndexSpec, take: Sequence[Column], *, versioned: bool) -> list[str]:
        """Return the columns of fact states that `of` needs.

        Args:
            spec: The index of the dataset.
            take: The value columns that are wanted.
            versioned: Whether rows can be retracted, or `of` has raised `MissingVersionsError`.
        """

    @classmethod
    def of(cls, spec: IndexSpec, states: pl.DataFrame) -> Self:
        """Reduce fact states to the newest one of each row.

        Args:
            spec: The index of the dataset.
            states: The columns `columns`, in any order of rows.

        Raises:
            MissingVersionsError: Versions are needed, and not among the columns.
        """

    @property
    def newest(self) -> int | None:
        """The greatest event time of a row; None without one, or if no lookup depends on it."""

    def answers(
        self, asked: pl.DataFrame, take: Sequence[Column], *, newest: int | None
    ) -> pl.DataFrame:
        """Return `QUESTION`, the event time and the values of the rows that were found.

        Values are as they are stored, or in the encoding of features.

        Args:
            asked: `AskedKeys.questions`.
            take: The value columns that are wanted.
            newest: The greatest event time of a row of the dataset; None without one.

        Raises:
            InexactError: An answer would not be exact.
        """


@attrs.frozen(kw_only=True)
class AskedKeys:
    """The keys that are looked up, each at an instant, and the value columns that are wanted.

    Attributes:
        keys: A column `key_name` for each key column; a key with a null finds no row.
        as_of: The instant of each key, microseconds.
        take: The value columns.
    """

    keys: pl.DataFrame
    as_of: pl.Series
    take: Sequence[Column]

    def at(self, places: Sequence[int]) -> "AskedKeys":
        """Return some of the keys."""
        return attrs.evolve(self, keys=self.keys[places], as_of=self.as_of[places])

    def questions(self, spec: IndexSpec) -> pl.DataFrame:
        """Return the keys without nulls, with their instants and places: `AS_OF` and `QUESTION`."""
        names = [key_name(column) for column in spec.log.keys]
        asked = self.keys.select(names).with_columns(self.as_of.alias(AS_OF))
        return asked.with_row_index(QUESTION).drop_nulls(names)

    def in_order(self, found: pl.DataFrame) -> pl.DataFrame:
        """Return the answers of a kernel in the order of the keys.

        The result has the form of `narthex._columnar_query.ColumnarLookup`.
        """
        count = self.keys.height
        places = pl.DataFrame({QUESTION: pl.int_range(count, dtype=pl.UInt32, eager=True)})
        rows = places.join(
            found.with_columns(pl.lit(value=True).alias(FOUND)),
            on=QUESTION,
            how="left",
            maintain_order="left",
        )
        return pl.DataFrame(
            [
                rows[FOUND].fill_null(value=False),
                rows[EVENT_TIME],
                *(stored_series(rows[value_name(one)], one.type) for one in self.take),
            ]
        )


def look_up_in_memory(
    kernel: type[Kernel], spec: IndexSpec, read: ReadStates, asked: AskedKeys
) -> pl.DataFrame:
    """Look up keys at instants, as `narthex._columnar_query.ColumnarLookup` does.

    Args:
        kernel: A kernel that answers lookups of the dataset.
        spec: The index of the dataset.
        read: Reads its history.
        asked: The keys.

    Raises:
        InexactError: An answer would not be exact.
    """

    def states(*, versioned: bool) -> Kernel:
        return kernel.of(spec, read(kernel.columns(spec, asked.take, versioned=versioned)))

    try:
        known = states(versioned=spec.correctable)
    except MissingVersionsError:
        known = states(versioned=True)
    found = known.answers(asked.questions(spec), asked.take, newest=known.newest)
    return asked.in_order(found)


def stored_keys(spec: IndexSpec, states: pl.DataFrame) -> list[pl.Series]:
    """Return the keys of fact states in the encoding of the keys that are looked up."""
    return [stored_series(states[key_name(one)], one.type) for one in spec.log.keys]


def newest_states(states: pl.DataFrame) -> pl.DataFrame:
    """Keep the state of the greatest version of each row."""
    is_superseded = pl.col(ROW_ID).is_duplicated()
    several = states.filter(is_superseded).sort(VERSION)
    return pl.concat(
        [states.filter(~is_superseded), several.unique(ROW_ID, keep="last", maintain_order=True)]
    )
