# mypy: disable-error-code="valid-type"
"""The examples of operators and aggregates, by the name of the public call."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from narthex import datasets, dtypes
from narthex._ir.entities import Definitions
from narthex.datasets import Count, Rows, pipeline
from narthex.dtypes import Continuous, Tumbling
from narthex.expr import col
from narthex.lib import inputs
from tests.core.parameters.examples import (
    DAY,
    ROW,
    SEEN,
    Call,
    Change,
    Example,
    Key,
    aggregate_example,
    changed_type,
    computed,
    filled,
    group,
    joined,
    of_datasets,
    optional,
    step_example,
    users,
    without,
)


def _grouped(method: str) -> Callable[..., Definitions]:
    def build(call: Call, fields: Mapping[str, object]) -> Definitions:
        return computed(lambda rows: call(getattr(rows.groupby("uid"), method)), fields)

    return build


def _by(call: Call, fields: Mapping[str, object]) -> Definitions:
    return computed(lambda rows: call(rows.groupby).aggregate(n=Count(window=DAY)), fields)


def _changelog(call: Call, fields: Mapping[str, object]) -> Definitions:
    users_of = users()

    @pipeline
    @inputs(users_of)
    def made(cls: object, rows: Rows) -> Rows:  # noqa: ARG001
        return call(rows.changelog)  # type: ignore[no-any-return]

    return of_datasets(users_of, filled(fields, made))


def _dedup(call: Call, fields: Mapping[str, object]) -> Definitions:
    return computed(lambda rows: call(rows.dedup), fields)


_CHANGES: Final = {"uid": int, "name": str, "country": str, "changed_at": datetime}


_BY_UID: Final = {"uid": Key(int), "n": int, **SEEN}
_JOINED: Final = {**ROW, "country": optional(str)}
STEPS: Final[Mapping[str, Example]] = {
    "Rows.filter": step_example(
        "filter", base={"predicate": col("uid") > 1}, changes={"predicate": col("uid") > 2}
    ),
    "Rows.assign": step_example(
        "assign",
        base={"columns": {"extra": (col("uid") + 1).astype(int)}},
        changes={
            "args": Change(
                ("extra", int, lambda df: df["uid"]),
                beside={"columns": {}},
                result={**ROW, "extra": int},
            ),
            "columns": {"extra": (col("uid") + 2).astype(int)},
        },
        result={**ROW, "extra": int},
    ),
    "Rows.select": step_example(
        "select",
        base={"columns": ["uid", "seen_at"]},
        changes={
            "args": Change(("other",), beside={"columns": None}, result={"other": int, **SEEN}),
            "columns": Change(["other"], result={"other": int, **SEEN}),
        },
        result={"uid": int, **SEEN},
    ),
    "Rows.drop": step_example(
        "drop",
        base={"columns": ["uid"]},
        changes={
            "args": Change(("other",), beside={"columns": None}, result=without("other")),
            "columns": Change(["other"], result=without("other")),
        },
        result=without("uid"),
    ),
    "Rows.rename": step_example(
        "rename",
        base={"columns": {"uid": "user"}},
        changes={"columns": Change({"other": "user"}, result=without("other", user=int))},
        result=without("uid", user=int),
    ),
    "Rows.dropnull": step_example(
        "dropnull",
        base={"columns": ["title"]},
        changes={
            "args": Change(("note",), beside={"columns": None}, result=without("note", note=str)),
            "columns": Change(["note"], result=without("note", note=str)),
        },
        result=without("title", title=str),
    ),
    "Rows.join": Example(
        build=joined,
        base={"other": "Users", "how": "left", "on": ["uid"], "fields": ["country"]},
        changes={
            "other": "People",
            "how": Change("inner", result={**ROW, "country": str}),
            "on": Change(["other"], says="the join is on `other`"),
            "left_on": Change(["other"], {"on": None, "left_on": ["uid"], "right_on": ["uid"]}),
            "right_on": Change(
                ["name"],
                {"on": None, "left_on": ["uid"], "right_on": ["uid"]},
                says="the join is on `name`",
            ),
            "within": ("1d", "0s"),
            "fields": Change(
                ["country", "changed_at"], result={**_JOINED, "changed_at": optional(datetime)}
            ),
        },
        result=_JOINED,
    ),
    "Rows.groupby": Example(
        build=_by,
        base={"args": ("uid",)},
        changes={
            "args": Change(("other",), result={"other": Key(int), "n": int, **SEEN}),
            "window": Change(
                Tumbling("1h"),
                result={"uid": Key(int), "window": Key(dtypes.Window), "n": int, **SEEN},
            ),
        },
        result=_BY_UID,
    ),
    "Rows.transform": step_example(
        "transform",
        base={"func": lambda df: df},
        changes={
            "func": lambda df: df[df["uid"] > 1],
            "schema": Change({**ROW, "more": int}, result={**ROW, "more": int}),
        },
    ),
    "Rows.dedup": Example(
        build=_dedup,
        base={"by": ["uid"]},
        changes={
            "args": Change(("other",), beside={"by": None}),
            "by": ["other"],
            "window": Tumbling("1h"),
        },
        result=ROW,
    ),
    "Rows.explode": step_example(
        "explode",
        base={"columns": ["items"]},
        changes={
            "args": Change(
                ("marks",), beside={"columns": None}, result=without("marks", marks=optional(int))
            ),
            "columns": Change(["marks"], result=without("marks", marks=optional(int))),
        },
        result=without("items", items=optional(int)),
    ),
    "Rows.changelog": Example(
        build=_changelog,
        base={"delete": "gone"},
        changes={
            "insert": Change("added", beside={"delete": None}, result={**_CHANGES, "added": bool}),
            "delete": Change("left", result={**_CHANGES, "left": bool}),
        },
        result={**_CHANGES, "gone": bool},
    ),
    "Groups.aggregate": Example(
        build=_grouped("aggregate"),
        base={"named": {"n": Count(window=DAY)}},
        changes={
            "specs": Change((Count(window=DAY, into_field="m"),), result=group(n=int, m=int)),
            "along": "paid_at",
            "emit": "final",
            "named": {"n": Count(window=Continuous("2d"))},
        },
        result=_BY_UID,
    ),
    "Groups.latest": Example(build=_grouped("latest"), result={**without("uid"), "uid": Key(int)}),
    "Groups.first": Example(build=_grouped("first"), result={**without("uid"), "uid": Key(int)}),
}

_OF: Final = {"of": "price"}
_OTHER_OF: Final = {"of": "cost"}
AGGREGATES: Final[Mapping[str, Example]] = {
    "Count": aggregate_example(
        datasets.Count,
        int,
        base={},
        of=Change("other", {"of": "uid", "unique": True}),
        unique=Change(True, {"of": "other"}),
        approx=Change(True, {"of": "other", "unique": True}),
        dropnull=Change(True, {"of": "title"}),
    ),
    "Sum": aggregate_example(datasets.Sum, float, base=_OF, **_OTHER_OF),
    "Average": aggregate_example(datasets.Average, float, base=_OF, **_OTHER_OF, default=1.0),
    "Min": aggregate_example(
        datasets.Min, float, base={**_OF, "default": 0.0}, **_OTHER_OF, default=1.0
    ),
    "Max": aggregate_example(
        datasets.Max, float, base={**_OF, "default": 0.0}, **_OTHER_OF, default=1.0
    ),
    "Stddev": aggregate_example(datasets.Stddev, float, base=_OF, **_OTHER_OF, default=1.0),
    "ExpDecaySum": aggregate_example(
        datasets.ExpDecaySum, float, base={**_OF, "half_life": "1d"}, **_OTHER_OF, half_life="2d"
    ),
    "Quantile": aggregate_example(
        datasets.Quantile,
        float,
        base={**_OF, "p": 0.5, "default": 0.0},
        **_OTHER_OF,
        p=0.9,
        default=1.0,
        approx=True,
    ),
    "Distinct": aggregate_example(
        datasets.Distinct,
        list[int],
        base={"of": "uid", "unordered": True},
        of="other",
        unordered=False,
        dropnull=changed_type(True, list[str], of="title"),
    ),
    "FirstK": aggregate_example(
        datasets.FirstK,
        list[int],
        base={"of": "uid", "limit": 5, "dedup": False, "dropnull": False},
        of="other",
        limit=6,
        dedup=True,
        dropnull=changed_type(True, list[str], of="title"),
    ),
    "LastK": aggregate_example(
        datasets.LastK,
        list[int],
        base={"of": "uid", "limit": 5, "dedup": False},
        of="other",
        limit=6,
        dedup=True,
        dropnull=changed_type(True, list[str], of="title"),
    ),
}
