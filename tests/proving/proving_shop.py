# mypy: disable-error-code="call-overload, assignment"
# ruff: noqa: ANN001, ANN201, N805
"""A shop that is stored for real: its logs in Kafka, its indexes in LMDB, its histories as Delta.

The stores' own writers write the output of the jobs, so that a proof finds no difference, and each
later corruption is the only one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from numpy.random import default_rng

from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import (
    AssetKind,
    AssetRef,
    Blueprint,
    HistorySpec,
    IndexSpec,
    ResolvedAsset,
    ResolvedNeed,
    TopicSpec,
)
from narthex._ir.entities import FIRST_PARTITIONS
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import Str
from narthex._sdk.commit_definitions import definitions
from narthex._testing.in_process import InProcessCalls
from narthex.connectors import Webhook, source
from narthex.datasets import Average, Count, LastK, Max, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs
from narthex_proving.deployed import Deployed
from narthex_proving.findings import Proof
from narthex_proving.proof import ProofRequest, prove
from narthex_reference.inprocess import engine_of
from narthex_stores import (
    EndOffsetReader,
    HistoryAdapter,
    HistoryTable,
    IndexStore,
    LmdbIndexStore,
    LogProducer,
    LogReader,
    TopicAdapter,
    history_path,
    next_offsets,
    record_table,
)
from tests.shared_services import fresh_install_id, fresh_number

__owner__ = "shop@narthex.dev"

START = 1_700_000_000_000_000
MINUTE = 60_000_000
BUYERS = 12
ORDERS = 900
USERS = 40
RETRACTED = 17
"""The offset of the order that was taken back."""

webhook = Webhook(name="proving")


@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    """A purchase."""

    buyer: str
    amount: int
    price: float
    at: datetime


@source(webhook.endpoint("buyers"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Buyers:
    """A buyer."""

    buyer: str = field(key=True)
    country: str
    at: datetime


@dataset
class Priced:
    """Orders with the country of their buyer."""

    buyer: str
    amount: int
    price: float
    country: str | None
    at: datetime

    @pipeline
    @inputs(Orders, Buyers)
    def joined(cls, orders, buyers):
        return orders.join(buyers, how="left", on=["buyer"])


@dataset(index=True)
class Spend:
    """The spending of a buyer."""

    buyer: str = field(key=True)
    orders: int
    orders_1h: int
    amount_1d: int
    mean_1d: float
    most: int
    newest: list[int]
    at: datetime

    @pipeline
    @inputs(Orders)
    def by_buyer(cls, orders):
        return (
            orders.filter(col("amount") > 0)
            .groupby("buyer")
            .aggregate(
                orders=Count(window=Continuous("forever")),
                orders_1h=Count(window=Continuous("1h")),
                amount_1d=Sum(of="amount", window=Continuous("1d")),
                mean_1d=Average(of="price", window=Continuous("1d")),
                most=Max(of="amount", window=Continuous("forever"), default=0),
                newest=LastK(of="amount", window=Continuous("1d"), limit=3, dedup=False),
            )
        )


@dataset(index=True, history="1d")
class Lately:
    """The spending of a buyer in a day; its index deletes what is too old."""

    buyer: str = field(key=True)
    orders: int
    amount_1h: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def by_buyer(cls, orders):
        return (
            orders.filter(col("amount") > 0)
            .groupby("buyer")
            .aggregate(
                orders=Count(window=Continuous("forever")),
                amount_1h=Sum(of="amount", window=Continuous("1h")),
            )
        )


@featureset
class Buyer:
    """The features of a buyer."""

    buyer: str
    amount: int = feature(Spend.amount_1d, default=0)
    mean: float | None = feature(Spend.mean_1d)
    country: str | None = feature(Buyers.country)
    twice: int = feature(col("amount") * 2)


DATASETS = (Orders, Buyers, Priced, Spend, Lately)
FEATURESETS = (Buyer,)


def order(offset: int, buyer: str, amount: int, price: float, at: int) -> Fact:
    """Make an order as its source does."""
    return Fact(
        row_id=RowId(position("webhook:proving/orders", 0, offset)),
        version=Version(b"\x00"),
        event_time=at,
        key=(),
        values=(buyer, amount, price),
    )


def buyer(offset: int, name: str, country: str | None, at: int) -> Fact:
    """Make a row of a buyer as its source does; without a country it is absent."""
    key = key_bytes((Column("buyer", Str()),), (name,))
    return Fact(
        row_id=keyed_row_id(key, at),
        version=Version(position("webhook:proving/buyers", 0, offset)),
        event_time=at,
        key=(name,),
        values=(country,),
        alive=country is not None,
    )


def orders() -> list[Fact]:
    """Draw orders, late ones, copies, and one that is taken back."""
    rng = default_rng(5)
    found: list[Fact] = []
    for offset in range(ORDERS):
        at = START + offset * 7 * MINUTE + int(rng.integers(60)) * 1_000_003
        if rng.random() < 0.05:
            at -= int(rng.integers(3000)) * MINUTE
        name = f"b{int(rng.integers(BUYERS))}"
        found.append(
            order(offset, name, int(rng.integers(-1, 100)), float(rng.integers(1, 9999)) / 7, at)
        )
    copies = [found[int(at)] for at in rng.integers(0, ORDERS, ORDERS // 50)]
    taken_back = attrs.evolve(found[RETRACTED], version=Version(b"\x01"), alive=False)
    return [*found, *copies, taken_back]


def buyers() -> list[Fact]:
    """Draw buyers who move, one who is corrected, and one who leaves."""
    rng = default_rng(6)
    found = [
        buyer(
            offset,
            f"b{int(rng.integers(BUYERS))}",
            f"c{int(rng.integers(5))}",
            START + int(rng.integers(-9999, ORDERS * 7)) * MINUTE,
        )
        for offset in range(USERS)
    ]
    corrected = buyer(USERS, str(found[3].key[0]), "corrected", found[3].event_time)
    gone = buyer(USERS + 1, str(found[4].key[0]), None, START + 4000 * MINUTE)
    return [*found, corrected, gone]


def contributions() -> list[Fact]:
    """Return what the job of `Spend` writes of the orders."""
    return [
        attrs.evolve(one, key=(one.values[0],), values=(one.values[1], one.values[2]))
        for one in orders()
        if isinstance(one.values[1], int) and one.values[1] > 0
    ]


def joined() -> list[Fact]:
    """Return what the job of `Priced` has written in the end."""
    engine = engine_of(definitions(list(DATASETS), list(FEATURESETS)))
    engine.append("Orders", orders())
    engine.append("Buyers", buyers())
    return list(engine.facts("Priced"))


def logs() -> dict[str, list[Fact]]:
    """Return the facts of each dataset's log, in the order in which they were appended."""
    return {
        "Orders": orders(),
        "Buyers": buyers(),
        "Priced": joined(),
        "Spend": contributions(),
        "Lately": [attrs.evolve(one, values=one.values[:1]) for one in contributions()],
    }


@attrs.frozen(kw_only=True)
class Shop:
    """The stored assets, and their places."""

    platform: Deployed
    bootstrap: str
    home: Path

    def index(self, name: str) -> tuple[Path, IndexSpec]:
        """Return the path of a dataset's index, and its spec."""
        feed = self.platform.bindings[f"dataset/{name}/index_feed"]
        need = feed.need("index")
        assert isinstance(need.spec, IndexSpec)
        return self.home / "index" / need.physical_name, need.spec

    def history(self, name: str) -> tuple[str, HistorySpec]:
        """Return the path of a dataset's history, and its spec."""
        asset = self.platform.bindings[f"dataset/{name}/history"]
        assert isinstance(asset.spec, HistorySpec)
        return history_path(self.platform.history_dir, asset.physical_name), asset.spec

    def prove(self, *datasets: str, sample: float = 1.0, wait_s: float = 20.0) -> Proof:
        """Prove it, with authors' code called in this process."""
        asked = ProofRequest(datasets=datasets, sample=sample, wait_s=wait_s)
        return prove(self.platform, asked, calls=InProcessCalls(), tell=lambda _: None)


def store_shop(
    bootstrap: str,
    home: Path,
    *,
    written: Mapping[str, Sequence[Fact]] | None = None,
    jobs_behind: bool = False,
    indexes: IndexStore | None = None,
    partitions: int = FIRST_PARTITIONS,
) -> Shop:
    """Store a shop below `home`, with its own topics.

    Args:
        bootstrap: The cluster.
        home: The directory of indexes and histories.
        written: Records of the logs in place of the right ones.
        jobs_behind: Whether the jobs say that they have read nothing.
        indexes: Where the indexes are; None for LMDB below `home`.
        partitions: The number of partitions of each log.
    """
    of = definitions(list(DATASETS), list(FEATURESETS))
    divided = tuple(attrs.evolve(one, partitions=partitions) for one in of.datasets)
    of = attrs.evolve(of, datasets=divided)
    number = fresh_number()
    blueprint = compile_blueprint(of)
    bindings = _resolved(blueprint, number)
    platform = Deployed(
        install_id=fresh_install_id(),
        commit_id=UUID(int=number),
        plans={plan.name: plan for plan in blueprint.datasets},
        definitions=of,
        bindings=bindings,
        kafka=bootstrap,
        indexes=indexes or LmdbIndexStore(home / "index"),
        history_dir=str(home / "history"),
        storage={},
        jobs_read=lambda: {} if jobs_behind else _all_read(bootstrap, bindings),
    )
    shop = Shop(platform=platform, bootstrap=bootstrap, home=home)
    _create(shop)
    with LogProducer(bootstrap) as producer:
        for name, facts in (written or logs()).items():
            topic = platform.topic(name)
            codec = fact_codec(platform.log(name))
            for fact in facts:
                key = key_bytes(platform.log(name).keys, fact.key) if fact.key else fact.row_id
                producer.post(topic.physical_name, value=codec.encode(fact), key=key)
        producer.flush()
    for each in of.datasets:
        fill(shop, each.name)
    return shop


def fill(shop: Shop, name: str) -> None:
    """Let a dataset's index and history take in its log, as their writers do."""
    platform = shop.platform
    topic = platform.topic(name).physical_name
    with LogReader(shop.bootstrap) as reader:
        ends = reader.end_offsets([topic])
        reader.assign(dict.fromkeys(ends, 0))
        records = []
        while any(reader.positions[place] < end for place, end in ends.items()):
            records += reader.poll(max_records=500, timeout_s=1.0)
    path, spec = shop.history(name)
    rows = record_table(spec.log, records)
    HistoryTable(path, spec).append_table(rows, next_offsets=next_offsets(records))
    for feed in platform.feeds(name, AssetKind.INDEX_FEED):
        need = feed.need("index")
        index_spec = need.spec
        assert isinstance(index_spec, IndexSpec)
        index = platform.indexes.open(need.physical_name, index_spec)
        facts = fact_codec(index_spec.log).decode_many([one.value or b"" for one in records])
        for start in range(0, len(facts), 100):
            index.apply(facts[start : start + 100], offsets={}, epoch=1)
        index.apply((), offsets=ends, epoch=1)
        index.expire(now_us=START + ORDERS * 8 * MINUTE, most=100_000, epoch=1)
        index.close()


def _create(shop: Shop) -> None:
    platform = shop.platform
    topics = TopicAdapter.connect(shop.bootstrap)
    indexes = platform.indexes.adapter()
    histories = HistoryAdapter(history_dir=platform.history_dir)
    made: dict[AssetKind, Any] = {
        AssetKind.KAFKA_TOPIC: topics,
        AssetKind.INDEX: indexes,
        AssetKind.HISTORY: histories,
    }
    for asset in {one.asset_id: one for one in platform.bindings.values()}.values():
        if asset.kind in made and isinstance(asset.spec, TopicSpec | IndexSpec | HistorySpec):
            made[asset.kind].create(
                asset.physical_name, asset.spec, asset_id=asset.asset_id, timeout_s=30.0
            )


def _resolved(blueprint: Blueprint, number: int) -> dict[str, ResolvedAsset]:
    assets: dict[AssetRef, ResolvedAsset] = {}
    bindings: dict[str, ResolvedAsset] = {}
    for asset_id, asset in enumerate(blueprint.assets, start=1):
        needs = tuple(
            ResolvedNeed(
                role=need.role,
                kind=assets[need.asset].kind,
                asset_id=assets[need.asset].asset_id,
                physical_name=assets[need.asset].physical_name,
                spec=assets[need.asset].spec,
            )
            for need in asset.needs
        )
        assets[asset.ref] = ResolvedAsset(
            asset_id=asset_id,
            kind=asset.kind,
            physical_name=f"nx_proving{number}_a{asset_id}",
            fingerprint=asset.fingerprint,
            spec=asset.spec,
            needs=needs,
        )
        bindings |= dict.fromkeys(asset.paths, assets[asset.ref])
    return bindings


def _all_read(
    bootstrap: str, bindings: Mapping[str, ResolvedAsset]
) -> dict[int, dict[str, dict[int, int]]]:
    end_offsets = EndOffsetReader(bootstrap)
    return {
        asset.asset_id: end_offsets.ends(
            need.physical_name for need in asset.needs if need.kind is AssetKind.KAFKA_TOPIC
        )
        for asset in bindings.values()
        if asset.kind is AssetKind.STREAM_JOB
    }
