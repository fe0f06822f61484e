"""The reads of a process, until they are stored: the newest of each entity, from any thread."""

import threading
import time

from narthex_ledger import ReadEntity, ReadKind
from narthex_server.services import read_instants
from narthex_server.services.read_instants import ReadInstants

SPENT: ReadEntity = (ReadKind.FEATURE, "Buyer.spent")
RANK: ReadEntity = (ReadKind.FEATURE, "Buyer.rank")
SPEND: ReadEntity = (ReadKind.DATASET, "Spend")


def test_the_newest_read_of_each_entity_is_taken_once() -> None:
    instants = ReadInstants()
    began = time.monotonic()
    instants.note("main", frozenset({SPENT, SPEND}))
    instants.note("dev", frozenset({SPEND}))
    between = time.monotonic()
    instants.note("main", frozenset({RANK, SPEND}))

    taken = instants.take()
    assert taken.keys() == {("main", SPENT), ("main", RANK), ("main", SPEND), ("dev", SPEND)}
    assert began <= taken["main", SPENT] <= between <= taken["main", SPEND] <= time.monotonic()
    assert taken["main", RANK] == taken["main", SPEND]
    assert instants.take() == {}


def test_reads_that_could_not_be_stored_are_taken_again_unless_there_are_newer_ones() -> None:
    instants = ReadInstants()
    instants.note("main", frozenset({SPENT, SPEND}))
    first = instants.take()
    instants.note("main", frozenset({SPEND}))
    instants.put_back(first)

    again = instants.take()
    assert again.keys() == first.keys()
    assert again["main", SPENT] == first["main", SPENT]
    assert again["main", SPEND] > first["main", SPEND]
    instants.put_back(again)
    instants.put_back(first)
    assert instants.take() == again


def test_many_different_queries_take_the_memory_of_their_entities() -> None:
    instants = ReadInstants()
    columns: list[ReadEntity] = [(ReadKind.FEATURE, f"F.f{number}") for number in range(200)]
    pairs = [frozenset({one, other}) for one in columns for other in columns]
    for pair in pairs:
        instants.note("main", pair)

    assert len(pairs) > read_instants.MOST_DISTINCT
    assert len(instants) <= read_instants.MOST_DISTINCT + len(columns)
    assert instants.take().keys() == {("main", one) for one in columns}


def test_no_read_is_lost_while_others_are_taken() -> None:
    instants, stored = ReadInstants(), set()
    names = [f"F.f{number}" for number in range(3_000)]

    def read(some: list[str]) -> None:
        for name in some:
            instants.note("main", frozenset({(ReadKind.FEATURE, name)}))

    threads = [threading.Thread(target=read, args=(names[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stored |= instants.take().keys()
    stored |= instants.take().keys()

    assert stored == {("main", (ReadKind.FEATURE, name)) for name in names}
