# mypy: disable-error-code="valid-type"
"""The examples of the public calls with which authors define, by module and name."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Final

from narthex import connectors, datasets, dtypes, lib
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import source
from narthex.datasets import Count, Rows, dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.integrations import aws
from narthex.lib import expectations, inputs, meta, outputs
from tests.core.parameters.connector_examples import CONNECTORS
from tests.core.parameters.examples import (
    ENV,
    OWNER,
    PUSHED,
    ROW,
    SEEN,
    WORD,
    Call,
    Change,
    Example,
    Key,
    computed,
    events,
    expectation_example,
    filled,
    of_datasets,
    read_from,
    typed,
    users,
    windowed,
)
from tests.core.parameters.operator_examples import AGGREGATES, STEPS


def _keyed(call: Call) -> Definitions:
    @OWNER
    @source(PUSHED, disorder="1h", cdc="upsert")
    @call(dataset)
    class Keyed:
        uid: int = field(key=True)
        at: datetime

    return of_datasets(Keyed)


def _indexed(call: Call) -> Definitions:
    @OWNER
    @source(PUSHED, disorder="1h", cdc="upsert")
    @call(datasets.index)
    @dataset
    class Indexed:
        uid: int = field(key=True)
        at: datetime

    return of_datasets(Indexed)


def _field(call: Call) -> Definitions:
    @OWNER
    @source(PUSHED, disorder="1h", cdc="upsert")
    @dataset
    class Fielded:
        uid: int = field(key=True)
        other: int = call(field)
        at: datetime = field(timestamp=True)

    return of_datasets(Fielded)


def _pipelined(call: Call) -> Definitions:
    rows_of = events()

    @call(pipeline)
    @inputs(rows_of)
    def made(cls: object, rows: Rows) -> Rows:  # noqa: ARG001
        return rows.filter(col("uid") > 1)

    return of_datasets(rows_of, filled(ROW, made))


def _session(call: Call) -> Definitions:
    return computed(
        lambda rows: rows.groupby("uid", window=call(dtypes.Session)).aggregate(n=Count()),
        {"uid": Key(int), "window": Key(dtypes.Window), "n": int, **SEEN},
    )


def _extracted(call: Call) -> Definitions:
    users_of = users()

    @OWNER
    @featureset
    class Plain:
        uid: int
        twice: int

        @call(extractor)
        @inputs("uid")
        @outputs("twice")
        def doubled(cls, ts: Any, uid: Any) -> Any:  # noqa: ARG002, N805
            return uid * 2

    return definitions([users_of], [Plain], env=ENV)


def _given(call: Call, made: Callable[..., Any]) -> Definitions:
    """Return a featureset in which `@inputs` or `@outputs` has the arguments of the example."""
    above = call(made)
    reads = above if made is inputs else inputs("uid")
    writes = above if made is outputs else outputs("twice")

    @OWNER
    @featureset
    class Given:
        uid: int
        other: int
        twice: int
        thrice: int = feature(col("uid") * 3) if made is inputs else feature()

        @extractor
        @reads
        @writes
        def doubled(cls, ts: Any, uid: Any) -> Any:  # noqa: ARG002, N805
            return uid * 2

    return definitions([], [Given], env=ENV)


def _featured(call: Call) -> Definitions:
    users_of = users()

    @wraps(feature)
    def looked_up(*args: str, **more: Any) -> Any:
        return feature(*(getattr(users_of, name) for name in args), **more)

    class Featured:
        uid: int
        name: str = call(looked_up)
        spare: int

    return definitions([users_of], [OWNER(featureset(Featured))], env=ENV)


def _described(call: Call) -> Definitions:
    @source(PUSHED, disorder="1h", cdc="append")
    @call(meta)
    @dataset
    class Described:
        uid: int
        at: datetime

    return of_datasets(Described)


def _bounded(bound: Callable[..., Any]) -> Callable[[Call], Definitions]:
    def build(call: Call) -> Definitions:
        @source(PUSHED, disorder="1h", cdc="append")
        @meta(owner="a@b.co", alerts=[call(bound)])
        @dataset
        class Bounded:
            uid: int
            at: datetime

        return of_datasets(Bounded)

    return build


def _promised(call: Call) -> Definitions:
    @OWNER
    @source(PUSHED, disorder="1h", cdc="append")
    @dataset
    class Promised:
        uid: int
        at: datetime

        @call(expectations)
        def promises(cls) -> Any:  # noqa: N805
            return [lib.expect_column_values_to_not_be_null("uid")]

    return of_datasets(Promised)


def _listed(call: Call) -> Definitions:
    here: lib.DataFile = call(lib.data_file)
    return computed(lambda rows: rows.filter(lambda df: df["name"].isin(here.read_text())), ROW)


EXAMPLES: Final[Mapping[str, Example]] = {
    **{f"narthex.connectors.{name}": example for name, example in CONNECTORS.items()},
    **{f"narthex.datasets.{name}": one for name, one in {**STEPS, **AGGREGATES}.items()},
    "narthex.datasets.dataset": Example(
        build=_keyed,
        base={"index": True},
        changes={
            "version": 2,
            "history": "30d",
            "index": False,
            "offline": False,
            "online": False,
            "partitions": 4,
        },
    ),
    "narthex.datasets.index": Example(
        build=_indexed,
        changes={
            "type": Change("secondary", says="index type `secondary` is unknown"),
            "online": False,
            "offline": None,
        },
    ),
    "narthex.datasets.field": Example(
        build=_field,
        changes={
            "key": True,
            "timestamp": Change(True, says="several fields that could be the timestamp"),
            "erase_key": Change(True, beside={"key": True}),
        },
    ),
    "narthex.datasets.pipeline": Example(build=_pipelined, changes={"env": "dev"}),
    "narthex.featuresets.extractor": Example(
        build=_extracted,
        changes={
            "deps": [users()],
            "version": 2,
            "env": "dev",
            "depends_on": [users()],
        },
    ),
    "narthex.featuresets.feature": Example(
        build=_featured,
        base={"args": ("name",), "default": "x"},
        changes={"args": ("country",), "default": "y", "version": 2, "env": "dev"},
    ),
    "narthex.featuresets.featureset": Example(build=_featured),
    "narthex.dtypes.between": typed(
        dtypes.between,
        base={"dtype": int, "min": 1, "max": 5},
        changes={"dtype": float, "min": 2, "max": 6, "strict_min": True, "strict_max": True},
    ),
    "narthex.dtypes.oneof": typed(
        dtypes.oneof,
        base={"dtype": int, "options": [1, 2]},
        changes={"dtype": Change(str, beside={"options": ["1", "2"]}), "options": [1, 3]},
    ),
    "narthex.dtypes.regex": typed(dtypes.regex, base={"pattern": "a"}, changes={"pattern": "b"}),
    "narthex.dtypes.Continuous": windowed(
        dtypes.Continuous, base={"duration": "1d"}, changes={"duration": "2d", "max_error": "1%"}
    ),
    "narthex.dtypes.Tumbling": windowed(
        dtypes.Tumbling, base={"duration": "1d"}, changes={"duration": "2d", "lookback": "1d"}
    ),
    "narthex.dtypes.Hopping": windowed(
        dtypes.Hopping,
        base={"duration": "1d", "stride": "1h"},
        changes={"duration": "2d", "stride": "2h", "lookback": "1d"},
    ),
    "narthex.dtypes.Session": Example(build=_session, base={"gap": "1h"}, changes={"gap": "2h"}),
    "narthex.lib.meta": Example(
        build=_described,
        base={"owner": "a@b.co"},
        changes={
            "owner": "c@d.co",
            "description": "Rows.",
            "tags": ["pii"],
            "deprecated": True,
            "deleted": True,
            "alerts": lib.Freshness("1h"),
        },
    ),
    "narthex.lib.Freshness": Example(
        build=_bounded(lib.Freshness),
        base={"max_age": "1h"},
        changes={"max_age": "2h", "severity": "critical"},
    ),
    "narthex.lib.QuarantineRate": Example(
        build=_bounded(lib.QuarantineRate),
        base={"max_rate": 0.1},
        changes={"max_rate": 0.2, "window": "2h", "severity": "critical"},
    ),
    "narthex.lib.data_file": Example(
        build=_listed,
        base={"path": "catalog.py"},
        changes={"path": "examples.py"},
    ),
    "narthex.lib.expectations": Example(build=_promised, changes={"version": 2}),
    "narthex.lib.inputs": Example(
        build=lambda call: _given(call, inputs),
        base={"given": ("uid",)},
        changes={"given": ("other",)},
    ),
    "narthex.lib.outputs": Example(
        build=lambda call: _given(call, outputs),
        base={"given": ("twice",)},
        changes={"given": ("thrice",)},
    ),
    "narthex.integrations.aws.Secret": Example(
        build=lambda call: read_from(
            connectors.Postgres("p", "h", "d", call(aws.Secret), WORD).table("t", "c")
        ),
        base={"arn": "arn:aws:secretsmanager:eu-1:1:secret:s"},
        refused="secrets of AWS are not read yet",
    ),
}


def example_of(name: str, parameters: Mapping[str, object]) -> Example:
    """Return the example of a public call.

    Raises:
        KeyError: It has none.
    """
    short = name.removeprefix("narthex.lib.")
    if short.startswith("expect_"):
        return expectation_example(short, parameters)
    return EXAMPLES[name]
