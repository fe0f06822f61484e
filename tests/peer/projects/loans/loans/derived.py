from datetime import datetime
from typing import List, Optional

import pandas as pd
from fennel.datasets import (
    Count,
    Dataset,
    Distinct,
    ExpDecaySum,
    FirstK,
    Min,
    Quantile,
    Sum,
    dataset,
    field,
    pipeline,
)
from fennel.dtypes import Continuous, Hopping, Session, Window
from fennel.expr import col, lit, when
from fennel.lib import includes, inputs, meta

from loans.raw import Account, Application, Payment, Rate, Visit


def signed(kind: str, amount: float) -> float:
    return amount if kind == "in" else -amount


@meta(owner="derived@loans.example")
@dataset
class EuroPayment:
    account: str
    kind: str
    currency: str
    euros: float
    booked: datetime
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payment, Rate)
    @includes(signed)
    def convert(cls, payments: Dataset, rates: Dataset):
        plain = payments.assign(
            kind=when(col("kind") == "in").then(lit("in")).otherwise(lit("out")).astype(str)
        )
        joined = plain.join(rates, how="inner", on=["currency"])
        return joined.assign(
            "euros",
            float,
            lambda df: df.apply(
                lambda row: signed(row["kind"], row["amount"] * row["euros"]), axis=1
            ),
        ).select("account", "kind", "currency", "euros", "booked")


@meta(owner="derived@loans.example")
@dataset(index=True)
class Balance:
    account: str = field(key=True)
    balance: float
    payments: int
    currencies: List[str]
    smallest: float
    median: float
    recent: float
    at: datetime

    @pipeline
    @inputs(EuroPayment)
    def balance_of(cls, payments: Dataset):
        return payments.groupby("account").aggregate(
            Sum(of="euros", window=Continuous("forever"), into_field="balance"),
            Count(window=Continuous("30d"), into_field="payments"),
            Distinct(
                of="currency", unordered=True, window=Continuous("forever"), into_field="currencies"
            ),
            Min(of="euros", default=0.0, window=Continuous("forever"), into_field="smallest"),
            Quantile(
                of="euros",
                p=0.5,
                default=0.0,
                approx=True,
                window=Continuous("forever"),
                into_field="median",
            ),
            Sum(of="euros", window=Continuous("2d"), into_field="recent"),
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class Booked:
    account: str = field(key=True)
    booked_sum: float
    at: datetime

    @pipeline
    @inputs(EuroPayment)
    def by_booking(cls, payments: Dataset):
        return (
            payments.drop("kind", "currency")
            .groupby("account")
            .aggregate(booked_sum=Sum(of="euros", window=Continuous("forever")), along="booked")
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class LabelCount:
    label: str = field(key=True)
    count: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payment)
    def count_labels(cls, payments: Dataset):
        return (
            payments.select("labels", "account")
            .explode("labels")
            .dropnull("labels")
            .rename({"labels": "label"})
            .groupby("label")
            .aggregate(count=Count(window=Continuous("forever")))
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class VisitCount:
    account: str = field(key=True)
    visits: int
    pages: List[str]
    heat: float
    at: datetime

    @pipeline
    @inputs(Visit)
    def count(cls, visits: Dataset):
        once = visits.dedup(by=["account", "page"], window=Session("30m"))
        weighed = once.assign("weight", float, lambda df: df["page"].map({"loan": 2.0}).fillna(1.0))
        return weighed.groupby("account").aggregate(
            visits=Count(window=Continuous("forever")),
            pages=FirstK(
                of="page", limit=2, dedup=True, dropnull=False, window=Continuous("forever")
            ),
            heat=ExpDecaySum(of="weight", half_life="1000d", window=Continuous("forever")),
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class VisitSession:
    account: str = field(key=True)
    window: Window = field(key=True)
    at: datetime

    @pipeline
    @inputs(Visit)
    def sessions(cls, visits: Dataset):
        return visits.groupby("account", window=Session("30m")).aggregate()


@meta(owner="derived@loans.example")
@dataset(index=True)
class LatestApplication:
    account: str = field(key=True)
    amount: float
    months: int
    monthly: float
    at: datetime

    @pipeline
    @inputs(Application)
    def latest(cls, applications: Dataset):
        def monthly(df: pd.DataFrame) -> pd.DataFrame:
            df["monthly"] = df["amount"] / df["months"]
            return df

        return (
            applications.filter(lambda df: df["months"] > 0)
            .transform(
                monthly,
                schema={
                    "account": str,
                    "amount": float,
                    "months": int,
                    "monthly": float,
                    "at": datetime,
                },
            )
            .groupby("account")
            .latest()
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class Risk:
    account: str = field(key=True)
    amount: float
    monthly: float
    holder: Optional[str]
    at: datetime

    @pipeline
    @inputs(LatestApplication, Account)
    def risk(cls, applications: Dataset, accounts: Dataset):
        return applications.drop("months").join(
            accounts, how="left", on=["account"], fields=["holder"]
        )


@meta(owner="derived@loans.example")
@dataset(index=True)
class Activity:
    account: str = field(key=True)
    events: int
    at: datetime

    @pipeline
    @inputs(Visit, Application)
    def all_events(cls, visits: Dataset, applications: Dataset):
        both = visits.select("account") + applications.select("account")
        return both.groupby("account").aggregate(events=Count(window=Hopping("forever", "1h")))
