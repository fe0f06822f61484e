"""Things that can be wrong in what is stored, each put in underneath the stores' own writers.

    python -m tests.proving.corruptions

stores a shop, spoils one thing at a time, proves it, and prints which was found, and where.
"""

# mypy: disable-error-code="explicit-any"

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import lmdb
import msgspec
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.table import Table

from narthex._ir.facts import Fact, RowId, Version
from narthex_proving.findings import Proof, ProofDifference
from narthex_stack.servers.local_servers import kafka_broker
from narthex_stores import HistoryTable, LmdbIndex, LmdbIndexStore
from tests.proving.proving_shop import (
    RETRACTED,
    Shop,
    buyers,
    contributions,
    logs,
    orders,
    store_shop,
)

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.decode

Spoil = Callable[[Shop], None]


@attrs.frozen(kw_only=True)
class Corruption:
    """One corruption.

    Attributes:
        dataset: The dataset whose store is corrupted; `store` is the kind of store.
        spoil: Corrupts the store; None if `written` has other records for the logs.
        key: Under which the proof must find it; None where any key will do.
    """

    name: str
    dataset: str
    store: str
    spoil: Spoil | None = None
    written: Callable[[], dict[str, list[Fact]]] | None = None
    key: str | None = None

    def found_in(self, proof: Proof) -> ProofDifference | None:
        """Return a difference that names what is wrong; None if none does."""
        for one in proof.differences:
            is_key = self.key is None or (one.key is not None and one.key.get("buyer") == self.key)
            if one.dataset == self.dataset and one.store == self.store and is_key:
                return one
        return None


@contextmanager
def tables(shop: Shop, dataset: str) -> Iterator[Any]:
    """Open the tables of an index without the index: gives a transaction and them by name."""
    path, _ = shop.index(dataset)
    environment = lmdb.open(str(path), max_dbs=4, map_size=64 << 30)
    opened = {name: environment.open_db(name.encode()) for name in ("facts", "tiles", "meta")}
    with environment.begin(write=True) as transaction:
        yield transaction, opened
    environment.close()


def _entry(shop: Shop, dataset: str, fact: Fact) -> tuple[bytes, bytes]:
    """Return the key under which an index has a fact, and the part of it that is the group."""
    path, spec = shop.index(dataset)
    index = LmdbIndex(path, spec, readonly=True)
    try:
        with index.read() as snapshot:
            return snapshot.layout.locate(fact)
    finally:
        index.close()


def in_the_middle() -> Fact:
    """Choose a contribution that has many neighbours."""
    return contributions()[300]


def _edit(shop: Shop, dataset: str, fact: Fact, change: Callable[[list[Any]], object]) -> None:
    key, _ = _entry(shop, dataset, fact)
    with tables(shop, dataset) as (transaction, opened):
        value = _unpack(transaction.get(key, db=opened["facts"]))
        change(value)
        transaction.put(key, _pack(value), db=opened["facts"])


def drop_row(shop: Shop) -> None:
    """Lose a row of an index."""
    key, _ = _entry(shop, "Spend", in_the_middle())
    with tables(shop, "Spend") as (transaction, opened):
        assert transaction.delete(key, db=opened["facts"])


def double_row(shop: Shop) -> None:
    """Count a row twice, the second time as if it were another."""
    fact = in_the_middle()
    key, _ = _entry(shop, "Spend", fact)
    other, _ = _entry(shop, "Spend", attrs.evolve(fact, row_id=RowId(fact.row_id + b"2")))
    with tables(shop, "Spend") as (transaction, opened):
        transaction.put(other, transaction.get(key, db=opened["facts"]), db=opened["facts"])


def stale_tile(shop: Shop) -> None:
    """Leave a tile as it was before its newest row came."""
    fact = in_the_middle()
    path, spec = shop.index("Spend")
    with tempfile.TemporaryDirectory() as directory:
        before = LmdbIndex(Path(directory), spec)
        before.apply([one for one in contributions() if one != fact], offsets={}, epoch=1)
        before.close()
        stale = lmdb.open(directory, max_dbs=4, map_size=64 << 30)
        with stale.begin() as transaction:
            old = dict(transaction.cursor(db=stale.open_db(b"tiles", transaction)))
        stale.close()
    with tables(shop, "Spend") as (transaction, opened):
        found = dict(transaction.cursor(db=opened["tiles"]))
        stale_keys = [key for key in old if old[key] != found.get(key)]
        assert stale_keys
        coarsest = max(stale_keys, key=lambda key: key[-9])
        transaction.put(coarsest, old[coarsest], db=opened["tiles"])
    del path


def wrong_version(shop: Shop) -> None:
    """Keep the first state of a row that was corrected."""
    first = buyers()[3]

    def change(value: list[Any]) -> None:
        value[0], value[2] = first.version, list(first.values)

    _edit(shop, "Buyers", first, change)


def wrong_value(shop: Shop) -> None:
    """Change an amount."""

    def change(value: list[Any]) -> None:
        value[2][0] += 1

    _edit(shop, "Spend", in_the_middle(), change)


def wrong_event_time(shop: Shop) -> None:
    """Move a row a second further."""
    fact = in_the_middle()
    key, _ = _entry(shop, "Spend", fact)
    moved, _ = _entry(shop, "Spend", attrs.evolve(fact, event_time=fact.event_time + 1_000_000))
    _move(shop, "Spend", key, moved)


def _move(shop: Shop, dataset: str, key: bytes, to: bytes) -> None:
    with tables(shop, dataset) as (transaction, opened):
        value = transaction.pop(key, db=opened["facts"])
        assert value is not None
        transaction.put(to, value, db=opened["facts"])


def missing_retraction(shop: Shop) -> None:
    """Keep a row that was taken back."""
    fact = taken_back()

    def change(value: list[Any]) -> None:
        value[0], value[1] = fact.version, True

    _edit(shop, "Spend", fact, change)


def taken_back() -> Fact:
    """Return the contribution that a later state takes back, as it was at first."""
    row_id = orders()[RETRACTED].row_id
    return next(one for one in contributions() if one.row_id == row_id)


def wrong_key(shop: Shop) -> None:
    """Put a row under another buyer."""
    fact = in_the_middle()
    other = next(one.key for one in contributions() if one.key != fact.key)
    key, _ = _entry(shop, "Spend", fact)
    moved, _ = _entry(shop, "Spend", attrs.evolve(fact, key=other))
    _move(shop, "Spend", key, moved)


def offsets_ahead_of_content(shop: Shop) -> None:
    """Say that the last records were taken in, which they were not."""
    path, spec = shop.index("Spend")
    index = LmdbIndex(path, spec)
    offsets = index.offsets()
    index.close()
    shutil.rmtree(path)
    path.mkdir()
    index = LmdbIndex(path, spec)
    index.apply(contributions()[:-40], offsets=offsets, epoch=1)
    index.close()


def offsets_beyond_the_log(shop: Shop) -> None:
    """Say that records were taken in that the log never had."""
    path, spec = shop.index("Spend")
    index = LmdbIndex(path, spec)
    ahead = {place: offset + 7 for place, offset in index.offsets().items()}
    index.apply((), offsets=ahead, epoch=1)
    index.close()


def missing_history_row(shop: Shop) -> None:
    """Lose a row of a history."""
    path, spec = shop.history("Orders")
    row = HistoryTable(path, spec).scan().slice(100, 1)
    DeltaTable(path).delete(f"offset = {row['offset'][0]} and partition = {row['partition'][0]}")


def doubled_history_row(shop: Shop) -> None:
    """Have a row of a history twice."""
    path, spec = shop.history("Orders")
    write_deltalake(path, HistoryTable(path, spec).scan().slice(100, 1), mode="append")


def changed_history_row(shop: Shop) -> None:
    """Change an amount in a history."""
    path, spec = shop.history("Orders")
    row = HistoryTable(path, spec).scan().slice(100, 1)
    DeltaTable(path).delete(f"offset = {row['offset'][0]} and partition = {row['partition'][0]}")
    place = row.schema.get_field_index("v_amount")
    changed = row.set_column(place, row.schema.field(place), pc.add(row["v_amount"], 1))
    write_deltalake(path, changed, mode="append")


def _logs_with(**changed: Sequence[Fact]) -> dict[str, list[Fact]]:
    return {**logs(), **{name: list(facts) for name, facts in changed.items()}}


def lost_in_a_pipeline() -> dict[str, list[Fact]]:
    """Let a job lose a row."""
    priced = logs()["Priced"]
    return _logs_with(Priced=[*priced[:200], *priced[201:]])


def doubled_by_a_pipeline() -> dict[str, list[Fact]]:
    """Let a job write a row twice, as two."""
    priced = logs()["Priced"]
    again = attrs.evolve(priced[200], row_id=RowId(priced[200].row_id + b"2"))
    return _logs_with(Priced=[*priced, again])


def stale_join() -> dict[str, list[Fact]]:
    """Let a join miss that a row of its right side came late."""
    priced = logs()["Priced"]
    wrong = attrs.evolve(priced[200], values=(*priced[200].values[:-1], "nowhere"))
    return _logs_with(Priced=[*priced[:200], wrong, *priced[201:]])


def overtaken_by_an_old_state() -> dict[str, list[Fact]]:
    """Let a job write a newest state that retracts a current row."""
    spend = logs()["Spend"]
    wrong = attrs.evolve(spend[200], version=Version(b"\x09"), alive=False)
    return _logs_with(Spend=[*spend, wrong])


def _key_of(fact: Fact) -> str:
    return str(fact.key[0])


CORRUPTIONS: tuple[Corruption, ...] = (
    Corruption(
        name="a dropped row in an index",
        dataset="Spend",
        store="index",
        spoil=drop_row,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="a doubled row in an index",
        dataset="Spend",
        store="index",
        spoil=double_row,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="a stale tile",
        dataset="Spend",
        store="index",
        spoil=stale_tile,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="a wrong version",
        dataset="Buyers",
        store="index",
        spoil=wrong_version,
        key=_key_of(buyers()[3]),
    ),
    Corruption(
        name="a wrong value",
        dataset="Spend",
        store="index",
        spoil=wrong_value,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="a wrong event time",
        dataset="Spend",
        store="index",
        spoil=wrong_event_time,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="a missing retraction",
        dataset="Spend",
        store="index",
        spoil=missing_retraction,
        key=_key_of(taken_back()),
    ),
    Corruption(
        name="a row under a wrong key",
        dataset="Spend",
        store="index",
        spoil=wrong_key,
        key=_key_of(in_the_middle()),
    ),
    Corruption(
        name="offsets ahead of content",
        dataset="Spend",
        store="index",
        spoil=offsets_ahead_of_content,
    ),
    Corruption(
        name="offsets beyond the log",
        dataset="Spend",
        store="index",
        spoil=offsets_beyond_the_log,
    ),
    Corruption(
        name="a missing history row",
        dataset="Orders",
        store="history",
        spoil=missing_history_row,
    ),
    Corruption(
        name="a doubled history row",
        dataset="Orders",
        store="history",
        spoil=doubled_history_row,
    ),
    Corruption(
        name="a changed history row",
        dataset="Orders",
        store="history",
        spoil=changed_history_row,
    ),
    Corruption(
        name="a row that a job lost", dataset="Priced", store="log", written=lost_in_a_pipeline
    ),
    Corruption(
        name="a row that a job wrote twice",
        dataset="Priced",
        store="log",
        written=doubled_by_a_pipeline,
    ),
    Corruption(
        name="a row joined with the wrong one", dataset="Priced", store="log", written=stale_join
    ),
    Corruption(
        name="a row that a job took back",
        dataset="Spend",
        store="log",
        written=overtaken_by_an_old_state,
    ),
)


def spoiled(sound: Shop, one: Corruption, home: Path) -> Shop:
    """Return a shop in which one thing is wrong: a copy, or one whose logs were written so."""
    if one.written is not None:
        return store_shop(sound.bootstrap, home, written=one.written())
    shutil.copytree(sound.home, home, dirs_exist_ok=True)
    platform = attrs.evolve(
        sound.platform, indexes=LmdbIndexStore(home / "index"), history_dir=str(home / "history")
    )
    shop = attrs.evolve(sound, platform=platform, home=home)
    if one.spoil is not None:
        one.spoil(shop)
    return shop


def main() -> int:
    """Spoil one thing after the other; exits with 1 if one is not found."""
    table = Table(title="seeded corruptions")
    for name in ("what is wrong", "found in", "as", "key", "found", "means", "made of"):
        table.add_column(name)
    missed = 0
    with tempfile.TemporaryDirectory() as directory, kafka_broker(Path(directory)) as bootstrap:
        sound = store_shop(bootstrap, Path(directory) / "sound")
        missed += not sound.prove().is_equal
        for number, one in enumerate(CORRUPTIONS):
            shop = spoiled(sound, one, Path(directory) / f"spoiled{number}")
            proof = shop.prove(one.dataset)
            found = one.found_in(proof)
            missed += found is None
            table.add_row(one.name, *_cells(found))
    Console(width=200).print(table)
    sys.stdout.write(f"{len(CORRUPTIONS)} seeded, {missed} missed\n")
    return 1 if missed else 0


def _cells(found: ProofDifference | None) -> tuple[str, ...]:
    if found is None:
        return ("NOT FOUND", "", "", "", "", "")
    return (
        f"{found.store} of {found.dataset}",
        found.what,
        str((found.key or {}).get("buyer", "")),
        str(found.found),
        str(found.meant),
        f"{len(found.made_of)} facts" if found.made_of else "",
    )


if __name__ == "__main__":
    raise SystemExit(main())
