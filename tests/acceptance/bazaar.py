"""A project of Fennel's users; the unmodified client of `fennel-ai` runs it, and prints JSON.

    python bazaar.py URL TOKEN

It runs in an environment of its own, so it imports nothing of Narthex.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, List
from urllib.request import Request, urlopen

import pandas as pd
from fennel.client import Client
from fennel.connectors import Kinesis, Webhook, source
from fennel.datasets import Average, Count, LastK, Max, Sum, dataset, field, pipeline
from fennel.dtypes import Continuous, Tumbling, Window, struct
from fennel.expr import col, lit, when
from fennel.featuresets import extractor, feature, featureset
from fennel.lib import includes, inputs, outputs

__owner__ = "bazaar@example.org"

BRANCH = "bazaar"
NOW = datetime.now(UTC).replace(microsecond=0)
STREAM_S = 120.0
bazaar = Webhook(name="bazaar")
FACTOR = 2
"""A constant of the module, which the client does not send."""


@struct
class Address:
    city: str
    zip: int


@source(bazaar.endpoint("buyers"), disorder="14d", cdc="upsert")
@dataset(index=True)
class Buyers:
    buyer: str = field(key=True)
    country: str
    age: int
    born: date
    photo: bytes
    address: Address
    seen_at: datetime = field(timestamp=True)


@source(
    bazaar.endpoint("purchases"),
    disorder="14d",
    cdc="append",
    where=lambda df: df["price"] >= 0.0,
)
@dataset
class Purchases:
    buyer: str
    price: float
    quantity: int
    bought_at: datetime


def times(price: pd.Series, quantity: pd.Series) -> pd.Series:
    return price * quantity


@dataset(index=True)
class Spending:
    country: str = field(key=True)
    value: float
    largest: float
    purchases: int
    mean_age: float
    last: List[float]
    bought_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Purchases, Buyers)
    @includes(times)
    def by_country(cls, purchases, buyers):
        return (
            purchases.filter(lambda df: df["quantity"] > 0)
            .assign("value", float, lambda df: times(df["price"], df["quantity"]))
            .join(buyers, how="inner", on=["buyer"], fields=["country", "age"])
            .assign(is_big=(col("value") > 100.0).astype(bool))
            .drop("is_big")
            .groupby("country")
            .aggregate(
                value=Sum(of="value", window=Continuous("forever")),
                largest=Max(of="value", window=Continuous("30d"), default=0.0),
                purchases=Count(window=Continuous("forever")),
                mean_age=Average(of="age", window=Continuous("forever")),
                last=LastK(of="value", limit=2, dedup=False, window=Continuous("forever")),
            )
        )


@featureset
class Buyer:
    buyer: str
    country: str = feature(Buyers.country, default="nowhere")
    age: int = feature(Buyers.age, default=-1)
    value: float = feature(Spending.value, default=0.0)
    purchases: int = feature(Spending.purchases, default=0)
    last: List[float] = feature(Spending.last, default=[])
    is_adult: bool = feature(col("age") >= 18)
    size: str = feature(when(col("value") > 10.0).then(lit("big")).otherwise(lit("small")))
    label: str
    home: str

    @extractor
    @inputs("country", "age")
    @outputs("label")
    def make_label(cls, ts, country, age):
        return pd.Series(name="label", data=[f"{c}/{a}" for c, a in zip(country, age)])

    @extractor(deps=[Buyers])
    @inputs("buyer")
    @outputs("home")
    def find_home(cls, ts, buyer):
        rows, found = Buyers.lookup(ts, buyer=buyer, fields=["country"])
        homes = [c.upper() if f else "unknown" for c, f in zip(rows["country"], found)]
        return pd.DataFrame({str(cls.home): homes})


@source(Kinesis(name="k", role_arn="arn:x").stream("arn:s", "latest", "json"), "1d", "append")
@dataset
class Streamed:
    buyer: str
    at: datetime


@dataset(index=True)
class Windows:
    buyer: str = field(key=True)
    window: Window = field(key=True)
    sold: int
    bought_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Purchases)
    def by_window(cls, purchases):
        return (
            purchases.groupby("buyer", window=Tumbling("1h"))
            .aggregate(sold=Count())
            .drop("sold")
            .assign("sold", int, lambda df: df["quantity"] * FACTOR)
        )


BUYERS = [
    ("ann", "no", 30, date(1990, 5, 17), b"\x00\x01", Address("Oslo", 150)),
    ("bob", "no", 40, date(1980, 1, 2), b"two", Address("Bergen", 5003)),
    ("cat", "se", 12, date(1969, 12, 31), b"three!", Address("Lund", 22100)),
]
PURCHASES = [("ann", 2.0, 3), ("bob", 5.0, 2), ("cat", 1.5, 1), ("ann", 9.0, 0), ("bob", -1.0, 1)]
"""One of quantity 0, which a pipeline filters, and one of a price that the source leaves out."""


def log_rows(client: Any) -> Any:
    rows = [(*row[:5], row[5].as_json()) for row in BUYERS]
    names = ["buyer", "country", "age", "born", "photo", "address"]
    buyers = pd.DataFrame(rows, columns=names).assign(seen_at=NOW - timedelta(hours=2))
    purchases = pd.DataFrame(PURCHASES, columns=["buyer", "price", "quantity"])
    purchases["bought_at"] = [NOW - timedelta(minutes=50 - n) for n in range(len(PURCHASES))]
    client.log("bazaar", "buyers", buyers)
    return client.log("bazaar", "purchases", purchases)


def query(client: Any) -> Any:
    names = pd.DataFrame({"Buyer.buyer": ["ann", "bob", "cat", "nil"]})
    return client.query(inputs=[Buyer.buyer], outputs=[Buyer], input_dataframe=names)


def wait_for(read: Callable[[], Any], expected: Callable[[Any], bool]) -> Any:
    ends_at = time.monotonic() + STREAM_S
    while True:
        found = read()
        if expected(found) or time.monotonic() > ends_at:
            return found
        time.sleep(0.5)


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the client raises no other
        return str(error)
    return ""


def plain(frame: Any) -> Any:
    return json.loads(frame.to_json(orient="records", date_format="iso"))


def offline(client: Any, url: str, token: str) -> Any:
    """Ask until the histories, which are written every few seconds, have all rows."""

    def has_all_rows(status: Any) -> bool:
        if status["status"] != "done":
            return True
        address = f"{url}/api/v1/query_offline/answers?request_id={status['request_id']}"
        request = Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
        with urlopen(request) as response:  # noqa: S310 - the address of the server
            return bool(json.load(response)["Buyer.purchases"][0] == 2)

    return wait_for(lambda: offline_once(client), has_all_rows)


def offline_once(client: Any) -> Any:
    spine = pd.DataFrame({"Buyer.buyer": ["ann", "cat"], "at": [NOW, NOW - timedelta(hours=1)]})
    queued = client.query_offline(
        [Buyer.buyer], [Buyer.country, Buyer.purchases], "at", input_dataframe=spine
    )
    track = lambda: client.track_offline_query(queued["request_id"])  # noqa: E731
    return wait_for(track, lambda status: status["status"] in {"done", "failed"})


def main(url: str, token: str) -> dict[str, Any]:
    client = Client(url, token)
    told: dict[str, Any] = {}
    client.init_branch(BRANCH)
    told["preview"] = client.commit("a preview", datasets=[Buyers], featuresets=[], preview=True)[
        "body"
    ]["summary"]
    told["commit"] = client.commit(
        "a bazaar", datasets=[Buyers, Purchases, Spending], featuresets=[Buyer]
    )["body"]["summary"]
    told["log"] = log_rows(client)["body"]
    answers = wait_for(
        lambda: query(client),
        lambda found: (
            list(found["Buyer.purchases"]) == [2, 2, 1, 0] and found["Buyer.age"][0] == 30
        ),
    )
    told["query"] = plain(answers)
    rows, found = client.lookup(Buyers, pd.DataFrame({"buyer": ["cat", "nil"]}))
    told["lookup"] = {"rows": plain(rows), "found": [bool(one) for one in found]}
    seen = [NOW - timedelta(hours=3), NOW]
    ages, known = client.lookup(
        "Buyers",
        pd.DataFrame({"buyer": ["ann", "ann"]}),
        fields=["age"],
        timestamps=pd.Series(seen),
    )
    told["as_of"] = {
        "ages": json.loads(ages.to_json(orient="values")),
        "found": [bool(one) for one in known],
    }
    inspected = wait_for(lambda: client.inspect(Buyers, n=5), lambda frame: len(frame) == 3)
    told["inspect"] = sorted(inspected["buyer"])
    told["offline"] = offline(client, url, token)
    told["refused"] = refusal(
        lambda: client.commit("no", datasets=[Purchases, Streamed, Windows], featuresets=[])
    )
    told["bad_row"] = refusal(
        lambda: client.log("bazaar", "purchases", pd.DataFrame({"buyer": ["x"], "price": ["a"]}))
    )
    told["erase"] = refusal(lambda: client.erase("Buyers", pd.DataFrame({"buyer": ["ann"]})))
    client.add_secret("bazaar", "s3cret")
    told["secret"] = client.get_secret("bazaar")
    client.clone_branch("bazaar-clone", BRANCH)
    told["branches"] = client.list_branches()
    told["cloned"] = plain(query(client)[["Buyer.country"]])
    client.delete_branch("bazaar-clone")
    told["left"] = client.list_branches()
    client.checkout(BRANCH)
    told["stranger"] = refusal(lambda: Client(url, "not-a-token").list_branches())
    told["xray"] = [one["name"] for one in client.xray()["datasets"]]
    return told


if __name__ == "__main__":
    printed = main(*sys.argv[1:])
    sys.stdout.write(json.dumps(printed))
