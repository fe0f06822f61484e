"""`list.*`, `struct.*` and `dict.*` on single values."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from narthex._expr.functions.collections import MOST_REPEATS
from narthex._expr.python.numbers import defined, same
from narthex._expr.python.signature import (
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
from narthex._expr.type_lattice import lca
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    Float,
    Map,
    Null,
    Optional,
    Struct,
    inner,
    item_type,
)


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
    plain = inner(of)
    return plain.of if isinstance(plain, Map) else item_type(plain) or plain


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


def whole_items(members: Sequence[Cell], of: DataType | None) -> Cell:
    """Convert items to a list of a type; None when an item is null and its type is not optional."""
    item = None if of is None else _item(of)
    lost = item is not None and not isinstance(item, Optional | Null) and None in members
    return None if lost else tuple(members)


def mapped_items(found: Sequence[tuple[Cell, Cell]], result: DataType | None) -> Cell:
    """Return the result of `list.map` for items and their values."""
    return whole_items([value for _, value in found], result)


def kept_items(found: Sequence[tuple[Cell, Cell]], _: DataType | None) -> Cell:
    """Return the result of `list.filter` for items and the predicate's results."""
    return tuple([item for item, holds in found if holds is True])


def _repeat(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    value, count = cells
    if count is None or not 0 <= whole(count) <= MOST_REPEATS:
        return None
    return whole_items((value,) * whole(count), signature.result)


def _members(signature: Signature, cells: tuple[Cell, ...], types: Sequence[DataType]) -> Cell:
    """Convert cells to the target struct; None when a required member is null."""
    target = signature.call.target
    if not isinstance(target, Struct):
        return None
    made: dict[str, Cell] = {}
    for index, (field, cell) in enumerate(zip(target.fields, cells, strict=True)):
        if cell is None and not isinstance(field.type, Optional):
            return None
        made[field.name] = convert(cell, types[index], field.type) if types else cell
    return made


def _make_struct(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return _members(signature, cells, signature.arguments or ())


def _zip(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    types = [_item(of) for of in signature.arguments or ()]
    rows = zip(*(items(cell) for cell in cells), strict=False)
    return tuple([_members(signature, row, types) for row in rows])


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
        "list.zip": _zip,
        "repeat": _repeat,
        "struct.make": _make_struct,
        "struct.get": _struct_get,
        "dict.get": _dict_get,
        "dict.len": lambda _, cells: len(entries(cells[0])),
        "dict.contains": lambda _, cells: text(cells[1]) in entries(cells[0]),
    }
)
