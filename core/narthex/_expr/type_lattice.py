"""Relations between types: which are promotable to which, and the common type of two."""

from narthex._ir.types import (
    DataType,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    Optional,
    Struct,
    StructField,
    base_type,
    inner,
    optional,
)


def promotable(found: DataType, wanted: DataType) -> bool:
    """Return whether each value of one type is, or exactly becomes, a value of the other.

    Restricted types (between, oneof, regex) count as their base type: values are checked against
    restrictions where rows enter.
    """
    return _promotable(base_type(found), base_type(wanted))


def _promotable(found: DataType, wanted: DataType) -> bool:
    if found == wanted:
        return True
    match wanted:
        case Optional():
            return isinstance(found, Null) or _promotable(inner(found), wanted.of)
        case Float():
            return isinstance(found, Int)
        case List():
            return isinstance(found, List | Embedding) and _promotable(_item(found), wanted.of)
        case Embedding():
            return found == List(Float())
        case Map():
            return isinstance(found, Map) and _promotable(found.of, wanted.of)
        case Struct():
            return isinstance(found, Struct) and _struct_promotable(found, wanted)
        case _:
            return False


def _item(of: List | Embedding) -> DataType:
    return of.of if isinstance(of, List) else Float()


def _struct_promotable(found: Struct, wanted: Struct) -> bool:
    if [field.name for field in found.fields] != [field.name for field in wanted.fields]:
        return False
    pairs = zip(found.fields, wanted.fields, strict=True)
    return all(_promotable(one.type, other.type) for one, other in pairs)


def lca(one: DataType, other: DataType) -> DataType | None:
    """Return the least type to which both are promotable; None if there is none."""
    one, other = base_type(one), base_type(other)
    if one == other:
        return one
    if isinstance(one, Null):
        return optional(other)
    if isinstance(other, Null):
        return optional(one)
    if isinstance(one, Optional) or isinstance(other, Optional):
        common = lca(inner(one), inner(other))
        return None if common is None else optional(common)
    return _lca_of_values(one, other)


def _lca_of_values(one: DataType, other: DataType) -> DataType | None:
    match one, other:
        case (Int(), Float()) | (Float(), Int()):
            return Float()
        case (Decimal() as decimal, Int()) | (Int(), Decimal() as decimal):
            return decimal
        case Decimal(), Decimal():
            return Decimal(max(one.scale, other.scale))
        case (List() | Embedding(), List() | Embedding()):
            item = _common_member(_item(one), _item(other))
            return None if item is None else List(item)
        case Map(), Map():
            entry = _common_member(one.of, other.of)
            return None if entry is None else Map(entry)
        case Struct(), Struct():
            return _lca_of_structs(one, other)
        case _:
            return None


def _common_member(one: DataType, other: DataType) -> DataType | None:
    """Return the common type of members of a list, a map or a struct, without loss of digits."""
    common = lca(one, other)
    if common is None or not (promotable(one, common) and promotable(other, common)):
        return None
    return common


def _lca_of_structs(one: Struct, other: Struct) -> DataType | None:
    if [field.name for field in one.fields] != [field.name for field in other.fields]:
        return None
    fields: list[StructField] = []
    for left, right in zip(one.fields, other.fields, strict=True):
        common = _common_member(left.type, right.type)
        if common is None:
            return None
        fields.append(StructField(left.name, common))
    return Struct("", tuple(fields))
