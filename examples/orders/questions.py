"""The spine of a training set, and the same answers computed another way.

`answers_from_tables` has no windows and no lookups: for each customer and instant it reads the
tables of all orders and customers, and leaves out what happened later.
"""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from examples.orders.data import all_orders, customers

CUSTOMER: Final = "Shopper.customer"
FEATURES: Final = (
    "Shopper.orders_30d",
    "Shopper.orders_90d",
    "Shopper.orders_ever",
    "Shopper.spent_90d",
    "Shopper.last_sizes",
    "Shopper.cohort_orders_30d",
    "Shopper.cohort_dollars_90d",
    "Shopper.spends_more",
    "Shopper.days_since",
)
NUMBERS: Final = (
    "Shopper.orders_30d",
    "Shopper.orders_90d",
    "Shopper.orders_ever",
    "Shopper.spent_90d",
    "Shopper.days_since",
)
"""The features that the model reads."""

SOON: Final = pd.Timedelta(days=30)
MAILINGS: Final = pd.to_datetime(["1997-09-01", "1997-11-01", "1998-02-01", "1998-05-01"], utc=True)


def labelled_spine(mailings: Sequence[pd.Timestamp] = tuple(MAILINGS)) -> pd.DataFrame:
    """Return each customer at each mailing, and whether an order came within 30 days."""
    orders, known = all_orders(), customers()
    parts = []
    for at in mailings:
        soon = orders[(orders["ordered_at"] > at) & (orders["ordered_at"] <= at + SOON)]
        joined = known.loc[known["joined_at"] <= at, "customer"].reset_index(drop=True)
        parts.append(
            pd.DataFrame(
                {CUSTOMER: joined, "timestamp": at, "orders_soon": joined.isin(soon["customer"])}
            )
        )
    return pd.concat(parts, ignore_index=True)


def answers_from_tables(
    orders: pd.DataFrame, known: pd.DataFrame, spine: pd.DataFrame
) -> pd.DataFrame:
    """Return the features of each row of a spine, by their names."""
    rows = []
    with_cohort = orders.merge(known, on="customer")
    for _, one in spine.iterrows():
        at, customer = one["timestamp"], one[CUSTOMER]
        before = with_cohort[with_cohort["ordered_at"] <= at]
        own = before[before["customer"] == customer]
        cohort = known.loc[known["customer"] == customer, "cohort"].item()
        alike = before[before["cohort"] == cohort]
        own_90d, alike_90d = (_last(part, at, 90)["dollars"] for part in (own, alike))
        rows.append(
            {
                "Shopper.orders_30d": len(_last(own, at, 30)),
                "Shopper.orders_90d": len(own_90d),
                "Shopper.orders_ever": len(own),
                "Shopper.spent_90d": float(own_90d.sum()),
                "Shopper.last_sizes": own["cds"].tolist()[::-1][:3],
                "Shopper.cohort_orders_30d": len(_last(alike, at, 30)),
                "Shopper.cohort_dollars_90d": _mean(alike_90d),
                "Shopper.spends_more": _mean(own_90d) > _mean(alike_90d),
                "Shopper.days_since": (at - own["ordered_at"].max()).total_seconds() / 86_400,
            }
        )
    return pd.DataFrame(rows)


def _last(orders: pd.DataFrame, at: pd.Timestamp, days: int) -> pd.DataFrame:
    return orders[orders["ordered_at"] >= at - pd.Timedelta(days=days)]


def _mean(dollars: "pd.Series[float]") -> float:
    return float(dollars.mean()) if len(dollars) else 0.0
