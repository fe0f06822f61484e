"""The features of a web page at the instant at which somebody opens it.

Pages that look alike share a history: how many of them had a verdict in the last six hours, and how
many of those were phishing. A verdict counts from its own instant, not from that of its page.
"""

from datetime import datetime
from typing import Annotated, TypeAlias

import pandas as pd

from narthex.connectors import Webhook, source
from narthex.datasets import Count, Rows, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, oneof
from narthex.expr import col, when
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import (
    expect_column_values_to_be_in_set,
    expect_column_values_to_not_be_null,
    expectations,
    inputs,
    meta,
    outputs,
)

__owner__ = "trust@example.com"

VALUES = ["phishing", "suspicious", "legitimate"]
Signal: TypeAlias = Annotated[str, oneof(str, VALUES)]

webhook = Webhook(name="browser")


@source(webhook.endpoint("pages"), disorder="1h", cdc="upsert")
@meta(description="The signals that a browser sees of a page. Each signal has one of three values.")
@dataset(index=True)
class Pages:
    """A page and its signals.

    Its certificate (`https`), links to other domains (`anchors`), parts from other domains
    (`requests`), windows that it opens (`popup`), and digits instead of a name in its address.
    """

    page: int = field(key=True)
    https: Signal
    anchors: Signal
    requests: Signal
    popup: Signal
    has_ip: bool
    seen_at: datetime = field(timestamp=True)

    @expectations
    def promises(cls):
        return [
            expect_column_values_to_not_be_null(column="https"),
            expect_column_values_to_be_in_set(column="anchors", value_set=VALUES),
        ]


@source(webhook.endpoint("verdicts"), disorder="1d", cdc="append")
@meta(description="A person's verdict about a page, hours after it was seen.")
@dataset
class Verdicts:
    """Whether a page is phishing."""

    page: int
    is_phishing: bool
    decided_at: datetime = field(timestamp=True)


@dataset(index=True)
class Lookalikes:
    """The recent verdicts about pages with the same certificate and the same kind of links."""

    https: Signal = field(key=True)
    anchors: Signal = field(key=True)
    judged_6h: int
    phishing_6h: int
    judged_ever: int
    decided_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Verdicts, Pages)
    def by_look(cls, verdicts: Rows, pages: Rows) -> Rows:
        return (
            verdicts.join(pages, how="inner", on=["page"], fields=["https", "anchors"])
            .assign(is_bad=when(col("is_phishing")).then(1).otherwise(0).astype(int))
            .groupby("https", "anchors")
            .aggregate(
                judged_6h=Count(window=Continuous("6h")),
                phishing_6h=Sum(of="is_bad", window=Continuous("6h")),
                judged_ever=Count(window=Continuous("forever")),
            )
        )


@meta(description="Everything that is known of a page when it is opened.")
@featureset
class OpenedPage:
    """A page that somebody opens."""

    page: int

    https: Signal = feature(Pages.https, default="suspicious")
    anchors: Signal = feature(Pages.anchors, default="suspicious")
    requests: Signal = feature(Pages.requests, default="suspicious")
    popup: Signal = feature(Pages.popup, default="suspicious")
    has_ip: bool = feature(Pages.has_ip, default=False)

    judged_6h: int = feature(Lookalikes.judged_6h, default=0)
    phishing_6h: int = feature(Lookalikes.phishing_6h, default=0)
    judged_ever: int = feature(Lookalikes.judged_ever, default=0)

    share_6h: float = feature((col("phishing_6h") + 1) / (col("judged_6h") + 2))
    bad_signals: int

    @extractor
    @inputs("https", "anchors", "requests", "popup")
    @outputs("bad_signals")
    def count_bad(cls, ts, https, anchors, requests, popup):
        signals = pd.concat([https, anchors, requests, popup], axis=1)
        return pd.Series((signals == "phishing").sum(axis=1), name="bad_signals")
