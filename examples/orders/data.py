"""6,919 orders of 2,357 customers of CDNOW, from the data that `lifetimes` contains.

P. Fader and B. Hardie published this sample: customers who bought first in the first quarter of
1997, and all their orders until June 1998. It has days; here, an order is dated at noon, and
each further one of the same customer and day a minute later. The package is found by path.
"""

import importlib.util
from pathlib import Path
from typing import Final

import pandas as pd

LIVE_FROM: Final = pd.Timestamp("1998-01-01", tz="UTC")
"""Orders before this instant are in the archive; later ones are sent by the shop."""

ENDS_AT: Final = pd.Timestamp("1998-07-01", tz="UTC")


def source_file() -> Path:
    """Find the file in the installed package.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    spec = importlib.util.find_spec("lifetimes")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package `lifetimes` is not installed; run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "datasets" / "CDNOW_sample.txt"


def all_orders() -> pd.DataFrame:
    """Return all orders in their order: customer, number of CDs, dollars and instant."""
    names = ["number", "customer", "day", "cds", "dollars"]
    raw = pd.read_csv(source_file(), sep=r"\s+", header=None, names=names)
    noon = pd.to_datetime(raw["day"].astype(str), utc=True) + pd.Timedelta(hours=12)
    minutes = raw.groupby(["customer", "day"]).cumcount()
    raw["ordered_at"] = noon + pd.to_timedelta(minutes, unit="min")
    orders = raw[["customer", "cds", "dollars", "ordered_at"]]
    return orders.sort_values(["ordered_at", "customer"], ignore_index=True)


def customers() -> pd.DataFrame:
    """Return the customers: number, the month in which they bought first, and the instant."""
    first = all_orders().groupby("customer", as_index=False)["ordered_at"].min()
    return pd.DataFrame(
        {
            "customer": first["customer"],
            "cohort": first["ordered_at"].dt.strftime("%Y-%m"),
            "joined_at": first["ordered_at"],
        }
    )


def live_orders() -> pd.DataFrame:
    """Return the orders of 1998, which the shop sends."""
    orders = all_orders()
    return orders[orders["ordered_at"] >= LIVE_FROM].reset_index(drop=True)


def write_archive(directory: Path) -> None:
    """Write `orders/orders.csv`, the orders of 1997, and `orders/customers.csv`."""
    target = directory / "orders"
    target.mkdir(parents=True, exist_ok=True)
    orders, form = all_orders(), "%Y-%m-%dT%H:%M:%SZ"
    archived = orders[orders["ordered_at"] < LIVE_FROM]
    archived.to_csv(target / "orders.csv", index=False, date_format=form)
    customers().to_csv(target / "customers.csv", index=False, date_format=form)
