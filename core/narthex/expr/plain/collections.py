"""`list.*`, `struct.*` and `dict.*` on single values."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from narthex.expr.lattice import lca
from narthex.expr.plain.numbers import defined, same
from narthex.expr.plain.signature import (
    Compute,
    Number,
    Signature,
    convert,
    entries,
    int64,
    items,
    number,
    text,
    whole,
)
from narthex.facts import Cell
from narthex.types import DataType, Float, List, Map, inner


def _at(_: Signature, cells: tuple[Cell, ...]) -> Cell:
    members, index = items(cells[0]), whole(cells[1])
    return members[index] if -len(members) <= index < len(members) else None


def _contains(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    members, wanted = items(cells[0]), cells[1]
    if signature.arguments is not None:
        item, needle = _item(signature.arguments[0]), signature.arguments[1]
        common = lca(item, needle)
        if common is not None:
            members = tuple(convert(member, item, common) for member in members)
            wanted = convert(wanted, needle, common)
    if any(same(member, wanted) for member in members if member is not None):
        return True
    return None if None in members else False


def _item(of: DataType) -> DataType:
    of = inner(of)
    return of.of if isinstance(of, List | Map) else of


def _of_numbers(compute: Callable[[Sequence[Number]], Cell]) -> Compute:
    def reduce(_: Signature, cells: tuple[Cell, ...]) -> Cell:
        members = items(cells[0])
        return None if None in members else compute([number(member) for member in members])

    return reduce


def _sum(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    members = items(cells[0])
    if None in members:
        return None
    floats = signature.result is not None and isinstance(inner(signature.result), Float)
    total: Number = 0.0 if floats else 0
    for member in members:
        total += number(member)
    return int64(total) if isinstance(total, int) else defined(total)


def _extreme(choose: Callable[[Number, Number], Number]) -> Compute:
    def reduce(members: Sequence[Number]) -> Cell:
        if not members:
            return None
        found = members[0]
        for member in members[1:]:
            found = choose(found, member)
        return found

    return _of_numbers(reduce)


def _least(one: Number, other: Number) -> Number:
    return other if math.isnan(one) or other < one else one


def _greatest(one: Number, other: Number) -> Number:
    return other if math.isnan(other) or other > one else one


def _mean(members: Sequence[Number]) -> Cell:
    if not members:
        return None
    total = 0.0
    for member in members:
        total += float(member)
    return defined(total / len(members))


def _quantifier(decisive: bool) -> Compute:
    def reduce(_: Signature, cells: tuple[Cell, ...]) -> Cell:
        members = items(cells[0])
        if decisive in members:
            return decisive
        return None if None in members else not decisive

    return reduce


def _struct_get(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return entries(cells[0]).get(text(signature.option("field")))


def _dict_get(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    found, key = cells[0], cells[1]
    if found is None or key is None:
        return None
    types, result = signature.arguments, signature.result
    index = 2 if text(key) not in entries(found) else 0
    value = entries(found)[text(key)] if index == 0 else (cells[2] if len(cells) > 2 else None)  # noqa: PLR2004 (the default)
    if types is None or result is None or value is None:
        return value
    return convert(value, _item(types[0]) if index == 0 else types[2], result)


COLLECTIONS: Mapping[str, Compute] = MappingProxyType(
    {
        "list.len": lambda _, cells: len(items(cells[0])),
        "list.at": _at,
        "list.contains": _contains,
        "list.hasnull": lambda _, cells: None in items(cells[0]),
        "list.sum": _sum,
        "list.min": _extreme(_least),
        "list.max": _extreme(_greatest),
        "list.mean": _of_numbers(_mean),
        "list.all": _quantifier(decisive=False),
        "list.any": _quantifier(decisive=True),
        "struct.get": _struct_get,
        "dict.get": _dict_get,
        "dict.len": lambda _, cells: len(entries(cells[0])),
        "dict.contains": lambda _, cells: text(cells[1]) in entries(cells[0]),
    }
)
