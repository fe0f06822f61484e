"""The raw columns that a source reads."""

from datetime import datetime

import pandas as pd

from narthex._runtime.ingest import read_columns
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import Webhook, ref, source
from narthex.connectors import eval as evaluated
from narthex.datasets import Dataset, dataset, field
from narthex.expr import col

ENDPOINT = Webhook("w").endpoint("e")


def read(made: Dataset) -> frozenset[str] | None:
    entity = dataset_entity(made)
    return read_columns(entity.sources[0], entity.schema)


def test_a_plain_source_reads_its_fields() -> None:
    @source(ENDPOINT, disorder="1h", cdc="append")
    @dataset
    class Plain:
        v: int
        at: datetime

    assert read(Plain) == {"v", "at"}


def test_columns_of_preprocs_and_of_the_predicate_are_read() -> None:
    @source(
        ENDPOINT,
        disorder="1h",
        cdc="append",
        preproc={
            "v": ref("raw[v]"),
            "w": evaluated(col("left") + col("right"), schema={"left": int, "right": int}),
            "kind": "constant",
        },
        where=evaluated(col("wanted"), schema={"wanted": bool}),
    )
    @dataset
    class Computed:
        v: int
        w: int
        kind: str
        at: datetime

    assert read(Computed) == {"v", "w", "kind", "at", "raw", "left", "right", "wanted"}


def test_columns_that_authors_code_requires_are_read() -> None:
    def double(frame: pd.DataFrame) -> pd.Series:
        return frame["half"] * 2

    @source(
        ENDPOINT,
        disorder="1h",
        cdc="append",
        preproc={"v": evaluated(double, schema={"half": int})},
    )
    @dataset
    class Coded:
        v: int
        at: datetime

    assert read(Coded) == {"v", "at", "half"}


def test_envelopes_have_no_columns() -> None:
    @source(ENDPOINT, disorder="1h", cdc="debezium")
    @dataset
    class Changes:
        k: int = field(key=True)
        at: datetime

    assert read(Changes) is None
