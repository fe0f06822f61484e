"""`list.*`, `struct.*`, `dict.*`, and the functions that make lists and structs."""

from narthex._expr import type_rules
from narthex._expr.functions.definition import NOT_A_NUMBER, TOO_BIG, Function, Nulls
from narthex._expr.type_rules import Rule, Wrong, gives
from narthex._ir.expression_nodes import Call
from narthex._ir.types import Bool, DataType, Int, Map, Optional, Str, inner, optional

MOST_REPEATS = 1_000_000
_LOST = "an item that is not Optional has no value"


def lists() -> tuple[Function, ...]:
    """Return the functions of `list.*` and `repeat`."""

    def of_list(
        name: str, rule: Rule, promise: str, *others: str, column: str = "l", undefined: str = ""
    ) -> Function:
        given = {"index": "-1", "item": "4"}
        return Function(
            name=f"list.{name}",
            arguments=(1 + len(others),) * 2,
            rule=rule,
            form=f"l.list.{name}({', '.join(others)})",
            promise=promise,
            example=f'col("{column}").list.{name}({", ".join(given[other] for other in others)})',
            undefined=undefined,
        )

    def binding(
        name: str, rule: Rule, promise: str, body: str, types: str, undefined: str = ""
    ) -> Function:
        other = "predicate" if name == "filter" else "expr"
        return Function(
            name=f"list.{name}",
            arguments=(2, 2),
            rule=rule,
            form=f"l.list.{name}(var, {other})",
            promise=promise,
            example=f'col("l").list.{name}("item", {body})',
            types=types,
            nulls=Nulls.OWN,
            undefined=undefined,
            options=("var",),
            binds=True,
        )

    by = type_rules.of_items
    return (
        of_list("len", by(lambda _item, _rest: Int()), "The number of items"),
        of_list(
            "at",
            by(type_rules.list_at),
            "The item there, from the end if negative, or null",
            "index",
        ),
        of_list(
            "contains",
            by(type_rules.list_contains),
            "Whether an item equals it; null items are unknown",
            "item",
            column="gaps",
        ),
        of_list(
            "hasnull", by(lambda _item, _rest: Bool()), "Whether an item is null", column="gaps"
        ),
        of_list(
            "sum",
            by(type_rules.list_sum),
            "The sum of the items, left to right; 0 of none; null with a null",
            undefined=f"{TOO_BIG}; {NOT_A_NUMBER}",
        ),
        of_list("min", by(type_rules.list_extreme), "The least item; null of none or with a null"),
        of_list(
            "max", by(type_rules.list_extreme), "The greatest item; null of none or with a null"
        ),
        of_list(
            "mean",
            by(type_rules.list_mean),
            "The sum of the items as floats by their number; null of none or with a null",
        ),
        of_list(
            "all",
            by(type_rules.list_quantifier),
            "Whether all items hold; null is unknown",
            column="flags",
        ),
        of_list(
            "any",
            by(type_rules.list_quantifier),
            "Whether an item holds; null is unknown",
            column="flags",
        ),
        binding(
            "filter",
            type_rules.list_filter,
            "The items for which the predicate over `var(...)` holds",
            'var("item") > 2',
            "`List[T]`, `bool` → `List[T]`",
        ),
        binding(
            "map",
            type_rules.list_map,
            "The value of the expression over `var(...)` for each item; it has no list function "
            "with a variable inside",
            'var("item") * col("x")',
            "`List[T]`, `U` → `List[U]`",
            undefined=_LOST,
        ),
        Function(
            name="repeat",
            arguments=(2, 2),
            rule=type_rules.repeated,
            form="repeat(value, by)",
            promise="A list of the value so many times; of a null, so many nulls",
            example='repeat(col("word"), 2)',
            types="`T`, `int` → `List[T]`",
            nulls=Nulls.OWN,
            undefined=f"the count is negative or more than {MOST_REPEATS:,}; {_LOST}",
        ),
        Function(
            name="list.zip",
            arguments=(1, None),
            rule=type_rules.zipped,
            form="S.zip(member=list, ...)",
            promise="Structs of the lists' items, as many as the shortest list has",
            example='Visitor.zip(name=col("s").str.split(", "), visits=col("l"))',
            types="a list for each member → `List[S]`",
        ),
    )


def records() -> tuple[Function, ...]:
    """Return the functions of `struct.*` and `dict.*`."""
    return (
        Function(
            name="struct.get",
            arguments=(1, 1),
            rule=type_rules.struct_member,
            form="r.struct.get(field)",
            promise="The member of that name",
            example='col("visitor").struct.get("visits")',
            types="a struct → the member's type",
            options=("field",),
        ),
        Function(
            name="struct.make",
            arguments=(1, None),
            rule=type_rules.made_struct,
            form="S.expr(member=a, ...)",
            promise="A struct of these members; also `make_struct({member: a, ...}, S)`",
            example='Visitor.expr(name="Ada", visits=col("missing"))',
            types="a value for each member → `S`",
            nulls=Nulls.OWN,
            undefined="a member that is not Optional has no value",
        ),
        Function(
            name="dict.get",
            arguments=(2, 3),
            rule=_dict_get,
            form="d.dict.get(key, default=None)",
            promise="The entry of that key; without one the default, or null",
            example='col("d").dict.get("k", 0.5)',
            types="`Dict[str, T]`, `str` → `T?`; with a default of `U`, what both have in common",
            nulls=Nulls.OWN,
        ),
        Function(
            name="dict.len",
            arguments=(1, 1),
            rule=gives(Int(), (Map,)),
            form="d.dict.len()",
            promise="The number of entries",
            example='col("d").dict.len()',
        ),
        Function(
            name="dict.contains",
            arguments=(2, 2),
            rule=gives(Bool(), (Map,), (Str,)),
            form="d.dict.contains(key)",
            promise="Whether there is an entry of that key, null or not",
            example='col("d").dict.contains("k")',
        ),
    )


def _dict_get(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    nullable = isinstance(found[0], Optional) or isinstance(found[1], Optional)
    result = type_rules.dict_get(call, (inner(found[0]), inner(found[1]), *found[2:]))
    return optional(result) if nullable and not isinstance(result, Wrong) else result
