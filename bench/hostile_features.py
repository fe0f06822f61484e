"""Definitions of `bench.hostile`: one that behaves well, and those of authors who do not."""

import re
from datetime import datetime

import pandas as pd

from narthex.connectors import Webhook, source
from narthex.datasets import Count, LastK, Rows, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs

__owner__ = "bench@example.org"

WEBHOOK = "hostile"
webhook = Webhook(name=WEBHOOK)


@source(webhook.endpoint("pings"), disorder="1h", cdc="upsert")
@dataset(index=True)
class Pings:
    """Rows whose freshness is measured."""

    ping: int = field(key=True)
    value: int
    at: datetime


@featureset
class Pinged:
    """The value of a ping."""

    ping: int
    value: int = feature(Pings.value, default=-1)


@source(webhook.endpoint("lists"), disorder="1h", cdc="append")
@dataset
class Lists:
    """Rows with long lists."""

    id: int
    items: list[int]
    at: datetime


@dataset(index=True)
class Exploded:
    """All elements of all lists, in one window of one key."""

    id: int = field(key=True)
    elements: int
    newest: list[int | None]
    at: datetime

    @pipeline
    @inputs(Lists)
    def of_one_key(cls, lists: Rows) -> Rows:
        return (
            lists.explode("items")
            .groupby("id")
            .aggregate(
                elements=Count(window=Continuous("1d")),
                newest=LastK(of="items", limit=1_000, dedup=False, window=Continuous("1d")),
            )
        )


@source(webhook.endpoint("endless"), disorder="1h", cdc="append")
@dataset
class Endless:
    """Rows of a pipeline that does not end."""

    id: int
    at: datetime


def _for_ever(frame: pd.DataFrame) -> pd.Series:
    while True:
        frame = frame.copy()


@dataset(index=True)
class Waited:
    """The output of a function that does not return."""

    id: int = field(key=True)
    late: int
    at: datetime

    @pipeline
    @inputs(Endless)
    def never(cls, endless: Rows) -> Rows:
        return endless.assign("late", int, _for_ever).groupby("id").latest()


@featureset
class Large:
    """A gigabyte for an answer."""

    id: int
    text: str

    @extractor
    @inputs("id")
    @outputs("text")
    def a_gigabyte(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        return pd.Series(["x" * 1_000_000_000] * len(ids))


@featureset
class Loop:
    """An extractor that does not return."""

    id: int
    never: int

    @extractor
    @inputs("id")
    @outputs("never")
    def for_ever(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        while True:
            ids = ids.copy()


@featureset
class Bomb:
    """A pattern that backtracks, on Python's own engine."""

    id: int
    found: bool

    @extractor
    @inputs("id")
    @outputs("found")
    def backtracks(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        return pd.Series([bool(re.match(r"(a+)+$", "a" * 40 + "b")) for _ in ids])


@featureset
class Memory:
    """An array that no machine has room for."""

    id: int
    total: int

    @extractor
    @inputs("id")
    @outputs("total")
    def all_of_it(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:
        held = [bytearray(1_000_000_000) for _ in range(64)]
        return pd.Series([len(held)] * len(ids))
