from typing import List, Optional

import pandas as pd
from fennel.expr import col, lit, when
from fennel.featuresets import extractor, feature as F, featureset
from fennel.lib import inputs, meta, outputs

from loans.derived import Activity, Balance, Booked, LabelCount, LatestApplication, Risk, VisitCount
from loans.raw import Account


@meta(owner="features@loans.example")
@featureset
class Question:
    account: str
    labels: List[str]


@meta(owner="features@loans.example")
@featureset
class AccountFeatures:
    account: str = F(Question.account)
    holder: str = F(Account.holder, default="nobody")
    country: str = F(
        when(col("holder") == "nobody").then(lit("none")).otherwise(col("holder").str.lower())
    )


@meta(owner="features@loans.example")
@featureset
class BalanceFeatures:
    account: str = F(Question.account)
    balance: float = F(Balance.balance, default=0.0)
    payments: int = F(Balance.payments, default=0)
    smallest: float = F(Balance.smallest, default=0.0)
    recent: float = F(Balance.recent, default=0.0)
    booked_sum: float = F(Booked.booked_sum, default=0.0)
    is_negative: bool = F(col("balance") < 0)
    currencies: List[str]

    @extractor(deps=[Balance])
    @inputs("account")
    @outputs("currencies")
    def sorted_currencies(cls, ts: pd.Series, account: pd.Series):
        df, found = Balance.lookup(ts, account=account, fields=["currencies"])
        lists = [sorted(one) if isinstance(one, list) else [] for one in df["currencies"]]
        return pd.Series(lists, name="currencies")


@meta(owner="features@loans.example")
@featureset
class Labels:
    label: List[str] = F(Question.labels)
    count: List[int] = F(LabelCount.count, default=0)
    total: int = F(col("count").list.sum())


@meta(owner="features@loans.example")
@featureset
class Behaviour:
    account: str = F(Question.account)
    visits: int = F(VisitCount.visits, default=0)
    pages: Optional[List[str]] = F(VisitCount.pages)
    events: int = F(Activity.events, default=0)


@meta(owner="features@loans.example")
@featureset
class Decision:
    account: str = F(Question.account)
    monthly: float = F(Risk.monthly, default=0.0)
    applicant: Optional[str] = F(Risk.holder)
    months: int = F(LatestApplication.months, default=0)
    score: float
    grade: str

    @extractor
    @inputs("monthly", BalanceFeatures.balance, Behaviour.visits)
    @outputs("score", "grade")
    def decide(cls, ts: pd.Series, monthly: pd.Series, balance: pd.Series, visits: pd.Series):
        score = balance.astype(float) - 2 * monthly.astype(float) + visits.astype(float)
        grade = ["A" if one > 0 else "B" for one in score]
        return pd.DataFrame({"score": score.tolist(), "grade": grade})
