"""The type rules of functions: from the types of arguments to the type of the result."""

from collections.abc import Callable
from typing import TypeAlias

import attrs

from narthex._expr.time_zones import UnknownZoneError, zone
from narthex._expr.type_lattice import lca, promotable
from narthex._ir.expression_nodes import Call
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Members,
    Null,
    Optional,
    Str,
    Struct,
    TypeMapper,
    base_type,
    inner,
    item_type,
    optional,
)

MAX_SCALE = 28


@attrs.frozen
class Wrong:
    """The reason why argument types are wrong (first found, then wanted), and how to fix them."""

    message: str
    hint: str = ""


Rule: TypeAlias = Callable[[Call, tuple[DataType, ...]], DataType | Wrong]
"""Returns the type of a call from the types of its arguments, already without restrictions and,
where the function's nulls propagate, without Optionals."""


def gives(result: DataType, *wanted: tuple[type, ...]) -> Rule:
    """Make the rule of a function with exactly these kinds of types and one result type."""

    def rule(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
        for kinds, argument in zip(wanted, found, strict=False):
            if not isinstance(argument, kinds):
                names = " or ".join(kind.__name__.lower() for kind in kinds)
                return Wrong(f"`{call.function}` of `{type_name(argument)}`; it takes {names}")
        return result

    return rule


def arithmetic(symbol: str) -> Rule:
    """Make the rule of an operator on two numbers, whose result is of their common type."""

    def rule(_: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
        left, right = found
        if symbol == "+" and isinstance(left, Str) and isinstance(right, Str):
            return Str()
        wrong = _not_numbers(symbol, left, right)
        if wrong is not None:
            return wrong
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return _decimal_result(symbol, left, right)
        return lca(left, right) or Float()

    return rule


def division(_: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `/`: two numbers give a float."""
    return _not_numbers("/", *found) or Float()


def _not_numbers(symbol: str, left: DataType, right: DataType) -> Wrong | None:
    both = (left, right)
    found = f"`{type_name(left)}` {symbol} `{type_name(right)}`; both sides of `{symbol}` are"
    if not all(isinstance(of, Int | Float | Decimal) for of in both):
        hint = ""
        if symbol in "+-" and isinstance(left, Datetime):
            hint = '`.dt.add("1d")`, `.dt.sub("1d")` and `.dt.since(other)` compute with instants'
        return Wrong(f"{found} numbers" + (" or both `str`" if symbol == "+" else ""), hint)
    if any(isinstance(of, Decimal) for of in both) and any(isinstance(of, Float) for of in both):
        return Wrong(f"{found} exact, or both are not", "a decimal is never mixed with a float")
    return None


def _decimal_result(symbol: str, left: DataType, right: DataType) -> DataType | Wrong:
    scales = [of.scale if isinstance(of, Decimal) else 0 for of in (left, right)]
    if symbol in {"+", "-", "%"}:
        return Decimal(max(scales))
    if symbol == "//":
        return Int()
    if sum(scales) <= MAX_SCALE:
        return Decimal(sum(scales))
    return Wrong(
        f"a product with {sum(scales)} digits after the point; at most {MAX_SCALE} are supported"
    )


def same_number(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type a function whose result is a number of the same kind as its argument."""
    if isinstance(found[0], Int | Float | Decimal):
        return found[0]
    return Wrong(f"`{call.function}` of `{type_name(found[0])}`; it takes a number")


def rounded(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `num.round`: an int without a precision, else a float."""
    if not isinstance(found[0], Int | Float):
        return Wrong(f"`{call.function}` of `{type_name(found[0])}`; it takes int or float")
    return Int() if dict(call.options).get("precision", 0) == 0 else Float()


def power(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `num.pow`: an int of two ints, else a float."""
    if all(isinstance(of, Int | Float) for of in found):
        return lca(*found) or Float()
    names = ", ".join(f"`{type_name(of)}`" for of in found)
    return Wrong(f"`{call.function}` of {names}; it takes int or float")


def equality(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `==`, `!=` and `is_in`: arguments with a common type."""
    for other in found[1:]:
        if lca(found[0], other) is None:
            names = f"`{type_name(found[0])}` and `{type_name(other)}`"
            return Wrong(f"`{call.function}` of {names}, which have no values in common")
    return Bool()


def ordering(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `<`, `<=`, `>`, `>=`: two numbers, texts, dates or instants."""
    common = lca(*found)
    if isinstance(common, Int | Float | Decimal | Str | Date | Datetime):
        return Bool()
    names = f"`{type_name(found[0])}` and `{type_name(found[1])}`"
    return Wrong(
        f"`{call.function}` of {names}; only numbers, str, date and datetime have an order, "
        "each with its like"
    )


def fillnull(_: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `fillnull`: the common type of the Optional's inner type and the filler."""
    common = lca(inner(found[0]), found[1])
    if isinstance(found[0], Null):
        return found[1]
    if common is None:
        return Wrong(f"`fillnull` of `{type_name(found[0])}` with `{type_name(found[1])}`")
    return common


def cast(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `cast`: the target, to which the argument is promotable."""
    if call.target is None:
        return Wrong("`cast` has no target")
    common = lca(found[0], call.target)
    if promotable(found[0], call.target) or common == call.target:
        return call.target
    return Wrong(f"`{type_name(found[0])}` does not become `{type_name(call.target)}`")


def parsed(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `str.parse`: the target, if JSON can represent it."""
    if not isinstance(found[0], Str):
        return Wrong(f"`str.parse` of `{type_name(found[0])}`; it takes str")
    if call.target is None or not _HAS_JSON(call.target):
        name = "nothing" if call.target is None else type_name(call.target)
        return Wrong(f"`str.parse` to `{name}`, which has no JSON form")
    return base_type(call.target)


def _members_have_json(_: Struct, members: Members[bool]) -> bool:
    return all(members.values())


_HAS_JSON: TypeMapper[bool] = TypeMapper(
    int=True,
    float=True,
    bool=True,
    str=True,
    bytes=False,
    datetime=True,
    date=True,
    decimal=lambda _: True,
    list=lambda _, item: item,
    map=lambda _, value: value,
    embedding=lambda _, __: True,
    struct=_members_have_json,
    null=lambda: False,
)
"""Whether `str.parse` can return values of the type."""


def of_items(item_rule: Callable[[DataType, tuple[DataType, ...]], DataType | None]) -> Rule:
    """Make the rule of a function on a list from a rule on its items' type."""

    def rule(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
        item = item_type(found[0])
        if item is None:
            return Wrong(f"`{call.function}` of `{type_name(found[0])}`; it takes a list")
        result = item_rule(item, found[1:])
        if result is None:
            rest = "".join(f", `{type_name(of)}`" for of in found[1:])
            return Wrong(f"`{call.function}` of `{type_name(found[0])}`{rest} has no meaning")
        return result

    return rule


def list_at(item: DataType, rest: tuple[DataType, ...]) -> DataType | None:
    """Type `list.at`: an item or null."""
    return optional(item) if isinstance(rest[0], Int) else None


def list_contains(item: DataType, rest: tuple[DataType, ...]) -> DataType | None:
    """Type `list.contains`: bool, nullable when items are."""
    if lca(item, rest[0]) is None:
        return None
    return optional(Bool()) if isinstance(item, Optional) else Bool()


def list_sum(item: DataType, _: tuple[DataType, ...]) -> DataType | None:
    """Type `list.sum`: the type of the items."""
    return item if isinstance(inner(item), Int | Float) else None


def list_extreme(item: DataType, _: tuple[DataType, ...]) -> DataType | None:
    """Type `list.min` and `list.max`: an item or null."""
    return optional(item) if isinstance(inner(item), Int | Float) else None


def list_mean(item: DataType, _: tuple[DataType, ...]) -> DataType | None:
    """Type `list.mean`: a float or null."""
    return optional(Float()) if isinstance(inner(item), Int | Float) else None


def list_quantifier(item: DataType, _: tuple[DataType, ...]) -> DataType | None:
    """Type `list.all` and `list.any`: the type of the items, which are bools."""
    return item if isinstance(inner(item), Bool) else None


def list_map(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `list.map`: a list of the second argument's type; Optional only if the list is."""
    return _of_list(call, found, List(found[1]))


def list_filter(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `list.filter`: the type of the list; the second argument is exactly a bool."""
    item = item_type(inner(found[0]))
    result = _of_list(call, found, List(item or found[0]))
    if isinstance(result, Wrong) or isinstance(found[1], Bool):
        return result
    return Wrong(f"`list.filter` by `{type_name(found[1])}`; it takes bool")


def _of_list(call: Call, found: tuple[DataType, ...], result: DataType) -> DataType | Wrong:
    if item_type(inner(found[0])) is None:
        return Wrong(f"`{call.function}` of `{type_name(found[0])}`; it takes a list")
    return optional(result) if isinstance(found[0], Optional) else result


def repeated(_: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `repeat`: a list of the value, null or not; the count is exactly an int."""
    if not isinstance(found[1], Int):
        return Wrong(f"`repeat` so often as `{type_name(found[1])}`; it takes int")
    return List(found[0])


def made_struct(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `make_struct`: its target, to whose members the arguments are promotable."""
    return _with_members(call, found, "make_struct")


def zipped(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `zip`: a list of its target, to whose members the items are promotable."""
    items: list[DataType] = []
    for of in found:
        item = item_type(of)
        if item is None:
            return Wrong(f"`zip` of `{type_name(of)}`; it takes lists")
        items.append(item)
    result = _with_members(call, tuple(items), "zip")
    return result if isinstance(result, Wrong) else List(result)


def _with_members(call: Call, found: tuple[DataType, ...], name: str) -> DataType | Wrong:
    target = None if call.target is None else base_type(call.target)
    if not isinstance(target, Struct) or len(target.fields) != len(found):
        return Wrong(f"`{name}` has not the members of a struct")
    wrong = [
        f"`{field.name}` is `{type_name(of)}`, wanted `{type_name(field.type)}`"
        for field, of in zip(target.fields, found, strict=True)
        if not promotable(of, field.type)
    ]
    if wrong:
        return Wrong(f"`{name}` of `{type_name(target)}`: {'; '.join(wrong)}")
    return target


def in_zone(rule: Rule) -> Rule:
    """Make the rule of a function with an optional time zone from its rule without one."""

    def checked(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
        try:
            zone(str(dict(call.options).get("timezone", "UTC")))
        except UnknownZoneError as error:
            return Wrong(str(error))
        return rule(call, found)

    return checked


def struct_member(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `struct.get`: the type of the member."""
    if not isinstance(found[0], Struct):
        return Wrong(f"`struct.get` of `{type_name(found[0])}`; it takes a struct")
    name = dict(call.options).get("field")
    for field in found[0].fields:
        if field.name == name:
            return field.type
    names = ", ".join(f"`{field.name}`" for field in found[0].fields)
    return Wrong(f"`{type_name(found[0])}` has no member `{name!s}`", f"its members are {names}")


def dict_get(_: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    """Type `dict.get`: an entry or null; with a default, the common type of both."""
    of, key = found[0], found[1]
    if not isinstance(of, Map) or not isinstance(key, Str):
        return Wrong(f"`dict.get` of `{type_name(of)}` with a key of `{type_name(key)}`")
    if len(found) == 2:  # noqa: PLR2004 (without a default)
        return optional(of.of)
    common = lca(of.of, found[2])
    if common is None:
        return Wrong(f"default of `{type_name(found[2])}` for entries of `{type_name(of.of)}`")
    return common
