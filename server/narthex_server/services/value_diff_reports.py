"""Diffs of values as answers: what a principal may see of them, and a sentence for a person."""

from collections.abc import Callable, Iterator
from typing import NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._base import Json
from narthex_server.web.plain_routes import Instant


class DifferingKeys(TypedDict):
    """How many keys differ.

    Attributes:
        compared: The keys with a row on some side.
        same: Those with the same values in all columns that both sides have.
        differ: Those with other values.
    """

    compared: int
    same: int
    differ: int
    on_first_only: int
    on_second_only: int


class DifferingColumn(TypedDict):
    """How a column differs, over the keys with a row on both sides.

    Attributes:
        types: Its type on both sides; null if a side has no such column.
        differ: How many keys have another value; null if only one side has the column.
        share: Their share of the keys with a row on both sides.
        null_on_first_only: How many of these are null on the first side only.
        null_on_second_only: How many of these are null on the second side only.
        mean_difference: The mean absolute difference of numbers, equal ones included; null without
            numbers, or if the token may not read data.
        greatest_difference: The greatest absolute difference of numbers.
    """

    column: str
    types: list[str | None]
    differ: int | None
    share: float | None
    null_on_first_only: int
    null_on_second_only: int
    mean_difference: float | None
    greatest_difference: float | None


class DifferenceCause(TypedDict):
    """A dataset that is the first, walking upstream, whose rows differ for some keys.

    Attributes:
        dataset: Its name; null if it is hidden from the token.
        kind: `source`: no dataset feeds it, so its sources gave other rows. `definition`: its
            inputs have the same rows for the keys, so its definition differs.
        versions: Its version on both sides.
        not_followed: Its inputs whose rows for the keys are not known, because they lack the
            columns of the key.
    """

    dataset: str | None
    kind: str
    keys: int
    versions: list[int]
    not_followed: list[str]


class DifferenceExample(TypedDict):
    """A differing value, or a key with a row on one side only.

    Attributes:
        only_on: `first` or `second`, for a key with a row on that side only.
        cause: The dataset that is the first to differ; null if the key was not followed.
    """

    key: dict[str, JsonValue]
    column: NotRequired[str]
    first: NotRequired[JsonValue]
    second: NotRequired[JsonValue]
    only_on: NotRequired[str]
    cause: str | None


class DatasetDiff(TypedDict):
    """The difference between the values of a dataset on two sides, as of one instant.

    Attributes:
        as_of: The instant; null if the values could not be compared.
        share: About which share of the keys was compared; null for given keys.
        same_history: Whether both sides read the same history, so that nothing can differ.
        versions: The version of the dataset on both sides.
        offsets: The next offset of each partition that was read up to, on both sides.
        explained: How many keys that differ were followed upstream.
        examples: Some differing values; null if the token may not read data, or when they were
            deleted.
        error: Why the values could not be compared.
        summary: A sentence for a person.
    """

    dataset: str
    as_of: Instant | None
    share: float | None
    same_history: bool
    versions: list[int]
    offsets: list[JsonValue]
    keys: DifferingKeys | None
    columns: list[DifferingColumn]
    explained: int
    causes: list[DifferenceCause]
    examples: list[DifferenceExample] | None
    error: str | None
    summary: str


def value_diff(
    dataset: str,
    result: Json,
    examples: Json,
    *,
    sees: Callable[[str], bool],
    has_values: bool,
    sides: tuple[str, str],
) -> DatasetDiff:
    """Render a diff.

    Args:
        dataset: The dataset.
        result: The result of the process.
        examples: Its examples; None if they were deleted.
        sees: Whether the principal sees a dataset.
        has_values: Whether it may read data; if not, the result has counts only.
        sides: What the sides are called.
    """
    found = result if isinstance(result, dict) else {}
    error = found.get("error")
    rendered: DatasetDiff = {
        "dataset": dataset,
        "as_of": None,
        "share": None,
        "same_history": False,
        "versions": [],
        "offsets": [],
        "keys": None,
        "explained": 0,
        **found,  # type: ignore[typeddict-item]
        "columns": [*_columns(found.get("columns"), has_values=has_values)],
        "causes": [*_causes(found.get("causes"), sees)],
        "examples": _examples(examples, sees) if has_values else None,
        "error": error if isinstance(error, str) else None,
        "summary": "",
    }
    return {**rendered, "summary": _sentence(rendered, sides)}


def _columns(columns: Json, *, has_values: bool) -> Iterator[DifferingColumn]:
    for one in columns if isinstance(columns, list) else ():
        if isinstance(one, dict):
            column: DifferingColumn = {**one}  # type: ignore[typeddict-item]
            if not has_values:
                column = {**column, "mean_difference": None, "greatest_difference": None}
            yield column


def _causes(causes: Json, sees: Callable[[str], bool]) -> Iterator[DifferenceCause]:
    for one in causes if isinstance(causes, list) else ():
        if isinstance(one, dict):
            cause: DifferenceCause = {**one}  # type: ignore[typeddict-item]
            followed = [name for name in cause["not_followed"] if sees(name)]
            yield {**cause, "dataset": _seen(cause["dataset"], sees), "not_followed": followed}


def _examples(examples: Json, sees: Callable[[str], bool]) -> list[DifferenceExample] | None:
    if not isinstance(examples, list):
        return None
    rendered: list[DifferenceExample] = [
        {**one, "cause": _seen(one.get("cause"), sees)}  # type: ignore[typeddict-item]
        for one in examples
        if isinstance(one, dict)
    ]
    return rendered


def _seen(dataset: Json, sees: Callable[[str], bool]) -> str | None:
    return dataset if isinstance(dataset, str) and sees(dataset) else None


def _sentence(diff: DatasetDiff, sides: tuple[str, str]) -> str:
    name, keys = diff["dataset"], diff["keys"]
    if keys is None:
        return f"{name}: the values could not be compared: {diff['error']}"
    if diff["same_history"]:
        return f"{name}: both sides read the same history"
    parts = [*_counts(keys, sides), *map(_column, filter(_differs, diff["columns"]))]
    if not parts:
        return f"{name}: {keys['compared']} keys were compared, and none differs"
    causes = [_cause(one, name) for one in diff["causes"]]
    changed = keys["compared"] - keys["same"]
    return f"{name}: {changed} of {keys['compared']} keys differ: " + "; ".join([*parts, *causes])


def _counts(keys: DifferingKeys, sides: tuple[str, str]) -> Iterator[str]:
    for number, side in zip((keys["on_first_only"], keys["on_second_only"]), sides, strict=True):
        if number:
            yield f"{number} only {side}"


def _differs(column: DifferingColumn) -> bool:
    return column["differ"] != 0


def _column(column: DifferingColumn) -> str:
    name, greatest, mean = (
        column["column"],
        column["greatest_difference"],
        column["mean_difference"],
    )
    if column["differ"] is None:
        return f"{name} is a column of one side only"
    of = f"{name} of {column['differ']}"
    return of if not greatest else f"{of} by {mean:.6g} on average and at most {greatest:.6g}"


def _cause(cause: DifferenceCause, dataset: str) -> str:
    name, keys = cause["dataset"] or "a hidden dataset", cause["keys"]
    versions = " and ".join(str(one) for one in cause["versions"])
    if cause["kind"] == "source":
        why = "its rows differ" if name == dataset else f"the first difference is in {name}"
    elif cause["not_followed"]:
        others = ", ".join(cause["not_followed"])
        why = f"the definition of {name} differs, or {others}, which could not be followed"
    else:
        why = f"the definition of {name} differs (versions {versions}), its inputs do not"
    return f"for {keys} keys {why}"
