# mypy: disable-error-code="valid-type"
"""Definitions around one public call, in which any of its parameters can have another value."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Final, Optional, TypeAlias

import attrs

from narthex import connectors, lib
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, sink, source
from narthex.datasets import Count, Dataset, Rows, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.lib import expectations, inputs, meta

ENV: Final = "prod"
"""The env of the commit; what is declared for another env is not in it."""

OWNER: Final = meta(owner="a@b.co")
USER, WORD, OTHER = (connectors.Secret(name) for name in ("user", "word", "other"))
PUSHED: Final = Webhook("w").endpoint("e")
DAY: Final = Continuous("1d")

Call: TypeAlias = Callable[[Callable[..., Any]], Any]
"""Calls a function with the arguments of the example."""


@attrs.frozen
class Key:
    """The type of a key field."""

    type: object


@attrs.frozen
class Change:
    """Another value of one parameter.

    Attributes:
        before: Arguments of both calls, with the value and without it.
        beside: Arguments of the call with the value only, which it requires.
        result: The columns of the dataset that a pipeline fills with the value, if they differ.
        says: Part of the error that refuses the value, if it does not name the parameter.
    """

    value: object
    before: Mapping[str, object] = attrs.field(factory=dict)
    beside: Mapping[str, object] = attrs.field(factory=dict, kw_only=True)
    result: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)
    says: str = attrs.field(default="", kw_only=True)


@attrs.frozen(kw_only=True)
class Example:
    """A public call in a definition that is valid.

    Attributes:
        build: Returns the definitions; it calls its first argument with the function.
        changes: Another value of each parameter, or a `Change`.
        base: The arguments; those of `*args` and `**kwargs` under the name of the parameter.
        result: The columns of the dataset that a pipeline fills; the second argument of `build`.
        refused: Part of the error by which the platform refuses every such call.
    """

    build: Callable[..., Definitions]
    changes: Mapping[str, object] = attrs.field(factory=dict)
    base: Mapping[str, object] = attrs.field(factory=dict)
    result: Mapping[str, object] | None = None
    refused: str = ""

    def change(self, parameter: str) -> Change:
        """Return the other value of a parameter.

        Raises:
            KeyError: The parameter has no example.
        """
        found = self.changes[parameter]
        return found if isinstance(found, Change) else Change(found)


def optional(of: object) -> object:
    """Return the type of a column that may be null."""
    return Optional[of]  # noqa: UP045 (`of | None` of a class of the project is an error)


SEEN: Final[Mapping[str, object]] = {"seen_at": datetime}
ROW: Final[Mapping[str, object]] = {
    "uid": int,
    "other": int,
    "name": str,
    "title": optional(str),
    "note": optional(str),
    "price": float,
    "cost": float,
    "items": list[int],
    "marks": list[int],
    "at": datetime,
    "paid_at": datetime,
    **SEEN,
}


def without(*names: str, **more: object) -> dict[str, object]:
    """Return the columns of an event without some, and with others."""
    return {**{name: of for name, of in ROW.items() if name not in names}, **more}


def events() -> Dataset:
    """Return a keyless dataset with the columns `ROW`."""
    body = {"__annotations__": dict(ROW), "seen_at": field(timestamp=True)}
    return source(PUSHED, disorder="1h", cdc="append")(
        OWNER(dataset(type("Events", (), body | {"__module__": __name__})))  # type: ignore[arg-type]
    )


def plain_users() -> Dataset:
    """Return a keyed dataset without a source."""

    @OWNER
    @dataset(index=True)
    class Users:
        uid: int = field(key=True)
        name: str
        country: str
        changed_at: datetime

    return Users


def users(conn: object = PUSHED, **options: Any) -> Dataset:
    """Return a keyed dataset that is read from a place."""
    return source(conn, **{"disorder": "1h", "cdc": "upsert", **options})(plain_users())


def of_datasets(*made: Dataset) -> Definitions:
    """Return the definitions of these datasets for `ENV`."""
    return definitions(made, [], env=ENV)


def read_from(conn: object, **options: Any) -> Definitions:
    """Return the definitions of a dataset that is read from a place."""
    return of_datasets(users(conn, **options))


def written_to(conn: object, **options: Any) -> Definitions:
    """Return the definitions of a dataset that is written to a place."""
    rows_of = events()

    @OWNER
    @sink(conn, **options)
    @dataset
    class Copy:
        uid: int
        seen_at: datetime

        @pipeline
        @inputs(rows_of)
        def copied(cls, rows: Rows) -> Rows:  # noqa: N805
            return rows.select("uid")

    return of_datasets(rows_of, Copy)


def computed(step: Callable[[Rows], Rows], fields: Mapping[str, object]) -> Definitions:
    """Return the definitions of a dataset with these fields, computed from events."""
    rows_of = events()

    @pipeline
    @inputs(rows_of)
    def made(cls: object, rows: Rows) -> Rows:  # noqa: ARG001
        return step(rows)

    return of_datasets(rows_of, filled(fields, made))


def people() -> Dataset:
    """Return a second keyed dataset, with the columns of users."""

    @OWNER
    @source(Webhook("w").endpoint("people"), disorder="1h", cdc="upsert")
    @dataset(index=True)
    class People:
        uid: int = field(key=True)
        name: str
        country: str
        changed_at: datetime

    return People


def joined(call: Call, fields: Mapping[str, object]) -> Definitions:
    """Return the definitions of a dataset that a join of events fills.

    The argument `other` of the example is the name of the right dataset.
    """
    rows_of, sides = events(), {"Users": users(), "People": people()}

    @pipeline
    @inputs(rows_of, *sides.values())
    def made(cls: object, rows: Rows, users_of: Rows, people_of: Rows) -> Rows:  # noqa: ARG001
        by_name = {"Users": users_of, "People": people_of}

        @wraps(rows.join)
        def join(other: str, **options: Any) -> Rows:
            return rows.join(by_name[other], **options)

        return call(join)  # type: ignore[no-any-return]

    return of_datasets(rows_of, *sides.values(), filled(fields, made))


def filled(fields: Mapping[str, object], pipeline_call: object) -> Dataset:
    """Return a dataset with these fields that a pipeline fills."""
    types = {name: of.type if isinstance(of, Key) else of for name, of in fields.items()}
    body: dict[str, object] = {
        "__annotations__": types,
        "__module__": __name__,
        "made": pipeline_call,
        **{name: field(key=True) for name, of in fields.items() if isinstance(of, Key)},
    }
    if "seen_at" in types:
        body["seen_at"] = field(timestamp=True)
    return OWNER(dataset(type("Computed", (), body)))  # type: ignore[arg-type]


def step_example(method: str, **example: Any) -> Example:
    """Return the example of an operator on rows."""

    def build(call: Call, fields: Mapping[str, object]) -> Definitions:
        return computed(lambda rows: call(getattr(rows, method)), fields)

    return Example(build=build, **{"result": ROW, **example})


def aggregate_example(
    cls: type, gives: object, /, *, base: Mapping[str, object], **changes: object
) -> Example:
    """Return the example of an aggregate; `gives` is the type of its result."""

    def build(call: Call, fields: Mapping[str, object]) -> Definitions:
        return computed(
            lambda rows: rows.groupby("uid").aggregate(call(cls), second=Count(window=DAY)), fields
        )

    return Example(
        build=build,
        base={"into_field": "value", "window": DAY, **base},
        changes={
            "window": Continuous("2d"),
            "into_field": Change("worth", result=group(worth=gives, second=int)),
            **changes,
        },
        result=group(value=gives, second=int),
    )


def group(**values: object) -> dict[str, object]:
    """Return the columns of groups by `uid`."""
    return {"uid": Key(int), **values, **SEEN}


def changed_type(value: object, gives: object, /, **beside: object) -> Change:
    """Return a change of an aggregate with which its result is of another type."""
    return Change(value, beside=beside, result=group(value=gives, second=int))


def windowed(make: Callable[..., Any], **example: Any) -> Example:
    """Return the example of a window of an aggregate."""

    def build(call: Call) -> Definitions:
        return computed(
            lambda rows: rows.groupby("uid").aggregate(value=Count(window=call(make))),
            group(value=int),
        )

    return Example(build=build, **example)


def typed(make: Callable[..., Any], **example: Any) -> Example:
    """Return the example of a type of a field."""

    def build(call: Call) -> Definitions:
        made = call(make)

        @OWNER
        @source(PUSHED, disorder="1h", cdc="append")
        @dataset
        class Typed:
            value: made
            at: datetime

        return of_datasets(Typed)

    return Example(build=build, **example)


_LENGTHS: Final = {"min_value": 1, "max_value": 5}
_EXPECTED: Final[Mapping[str, object]] = {
    "column": "uid",
    "column_A": "uid",
    "column_B": "other",
    "column_list": ["uid", "other"],
    "value": 3,
    "value_set": [1, 2],
    "value_pairs_set": [(1, 2)],
    "type_": "int",
    "type_list": ["int"],
    "json_schema": {"type": "object"},
    "regex": "^a",
    "regex_list": ["^a"],
    "strftime_format": "%Y",
    "sum_total": 5,
}
_EXPECTED_CHANGES: Final[Mapping[str, object]] = {
    "column": "third",
    "column_A": "third",
    "column_B": "third",
    "column_list": ["uid", "third"],
    "value": 4,
    "value_set": [1, 3],
    "value_pairs_set": [(1, 3)],
    "type_": "float",
    "type_list": ["float"],
    "json_schema": {"type": "array"},
    "regex": "^b",
    "regex_list": ["^b"],
    "strftime_format": "%m",
    "sum_total": 6,
    "min_value": 2,
    "max_value": 6,
    "strict_min": Change(True, _LENGTHS),
    "strict_max": Change(True, _LENGTHS),
    "or_equal": True,
    "ignore_row_if": "never",
    "match_on": "all",
    "mostly": 0.5,
    "severity": "critical",
    "action": "drop",
}
_ON_TEXT: Final = ("lengths", "regex", "strftime", "dateutil", "json")


def expectation_example(name: str, parameters: Mapping[str, object]) -> Example:
    """Return the example of an expectation; the parameters of all of them mean the same."""
    base = {one: _EXPECTED[one] for one in parameters if one in _EXPECTED}
    changes = {one: _EXPECTED_CHANGES[one] for one in parameters if one in _EXPECTED_CHANGES}
    if "column" in base and any(part in name for part in _ON_TEXT):
        base["column"], changes["column"] = "name", "title"
    if "between" in name:
        base |= _LENGTHS

    def build(call: Call) -> Definitions:
        @OWNER
        @source(PUSHED, disorder="1h", cdc="append")
        @dataset
        class Visits:
            uid: int
            other: int
            third: int
            name: str
            title: str
            at: datetime

            @expectations
            def promised(cls) -> Any:  # noqa: N805
                return [call(getattr(lib, name))]

        return of_datasets(Visits)

    return Example(build=build, base=base, changes=changes)
