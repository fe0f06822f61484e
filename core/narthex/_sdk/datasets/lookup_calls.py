"""The checks of calls of `Dataset.lookup`."""

from collections.abc import Mapping, Sequence

from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.schema import Schema
from narthex.errors import LookupImpossible


def check_lookup(
    dataset: str,
    schema: Schema,
    ts: object,
    positional: Sequence[object],
    *,
    keys: Mapping[str, object],
    fields: Sequence[str],
) -> None:
    """Refuse a lookup without a column of instants and one for each key, by name.

    Raises:
        LookupImpossible: An argument is missing, unknown or not a column.
    """
    names = [key.name for key in schema.keys]
    title = f"`{dataset}.lookup`"
    if not names:
        raise LookupImpossible(f"{title}: the dataset has no key to look up by")
    if positional:
        raise LookupImpossible(
            f"{title} takes its keys by name",
            hint=f"write `{dataset}.lookup(ts, {', '.join(f'{name}=…' for name in names)})`",
        )
    _check_keys(names, keys, title)
    for name in fields:
        if name not in schema.columns:
            raise LookupImpossible(
                f"{title} selects `{name}`; the dataset has {listed(schema.columns)}",
                hint=did_you_mean(name, schema.columns),
            )
    _check_column(ts, f"{title}: `ts`")
    kind = str(getattr(ts, "dtype", ""))
    if not kind.startswith(("datetime64", "timestamp", "object")):
        raise LookupImpossible(f"{title}: `ts` is a column of `{kind}`, not of instants")


def _check_keys(names: Sequence[str], keys: Mapping[str, object], title: str) -> None:
    for name in names:
        if name not in keys:
            raise LookupImpossible(f"{title} has no key `{name}`; expected {listed(names)}")
    for name, column in keys.items():
        if name not in names:
            raise LookupImpossible(
                f"{title} was given `{name}`, which is not a key; expected {listed(names)}",
                hint=did_you_mean(name, names),
            )
        _check_column(column, f"{title}: `{name}`")


def _check_column(column: object, what: str) -> None:
    # A pandas Series is recognized by its shape, as the core does not import pandas.
    if not hasattr(column, "dtype") or not hasattr(column, "tolist"):
        raise LookupImpossible(f"{what} is a `{type(column).__name__}`; expected a Series")
