"""Rows whose values decay by themselves are found as they are when they are looked up."""

from collections.abc import Callable
from pathlib import Path

import pytest

from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import Decay, IndexSpec, LogShape, LogSpec
from narthex._ir.facts import Fact, Version
from narthex._ir.schema import Column
from narthex._ir.types import Float, Int, Str
from narthex_stores.indexes import InMemoryIndex, LmdbIndex, WritableIndex

USER = Column("user", Str())
LOG = LogSpec(
    shape=LogShape.KEYED,
    keys=(USER,),
    values=(Column("visits", Int()), Column("heat", Float())),
    time_field="at",
    decays=(Decay("heat", 10),),
)


def _in_lmdb(directory: Path, spec: IndexSpec) -> WritableIndex:
    return LmdbIndex(directory, spec)


def _in_memory(_directory: Path, spec: IndexSpec) -> WritableIndex:
    return InMemoryIndex(spec)


@pytest.mark.parametrize("made", [_in_lmdb, _in_memory])
def test_a_value_is_halved_with_each_half_life(
    made: Callable[[Path, IndexSpec], WritableIndex], tmp_path: Path
) -> None:
    index = made(tmp_path, IndexSpec(log=LOG))
    row = Fact(
        row_id=keyed_row_id(key_bytes((USER,), ("ann",)), 100),
        version=Version(b"1"),
        event_time=100,
        key=("ann",),
        values=(3, 8.0),
    )
    index.apply([row], offsets={}, epoch=1)

    with index.read() as reader:
        found = reader.lookup([("ann",)] * 4, [99, 100, 110, 130])

    assert found[0] is None
    assert [one.values for one in found if one] == [(3, 8.0), (3, 4.0), (3, 1.0)]
    assert [one.event_time for one in found if one] == [100, 100, 100]
