"""Random well-typed expressions over random rows, for every evaluator."""

import functools

from hypothesis import strategies as st

from narthex._expr.typing import references
from narthex._ir.expression_nodes import Branch, Call, Case, Literal, LiteralValue, Node, Ref, Var
from narthex._ir.facts import Cell
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
    Optional,
    Str,
    Struct,
    StructField,
    inner,
)

INT, FLOAT, BOOL, STR, TIME, DAY = Int(), Float(), Bool(), Str(), Datetime(), Date()
MONEY, FINE = Decimal(2), Decimal(5)
POINT = Struct("Point", (StructField("x", INT), StructField("label", Optional(STR))))
KINDS: dict[str, DataType] = {
    "i": INT,
    "f": FLOAT,
    "b": BOOL,
    "s": STR,
    "t": TIME,
    "d": DAY,
    "m": MONEY,
    "n": FINE,
    "li": List(INT),
    "lo": List(Optional(FLOAT)),
    "ls": List(STR),
    "lb": List(Optional(BOOL)),
    "p": POINT,
    "k": Map(INT),
}
SCHEMA: dict[str, DataType] = {
    **KINDS,
    **{f"{name}_or_null": Optional(of) for name, of in KINDS.items()},
}
NOW_US = 1_385_000_000_123_456
UNITS = ["year", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
PARTS = ["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
ZONES = ["Asia/Kolkata", "America/New_York", "Europe/Paris", "Pacific/Apia"]

letters = st.text(alphabet="aB1%é Σßİ語,", max_size=5)
sayings = letters | st.sampled_from(
    [
        "2021-03-14",
        "1970-1-1 1:02",
        "2021-11-07 01:30",
        '{"x": 1}',
        '{"x": 2, "label": "é"}',
        "[1, 2]",
        "1.5",
    ]
)
ints = st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, 0.5, -2.5, 1e300, 2.0**63])
times = st.integers(-(2**62), 2**62) | st.integers(0, 2 * NOW_US)


def cells(of: DataType) -> st.SearchStrategy[Cell]:
    match of:
        case Optional():
            return st.none() | cells(of.of)
        case List():
            return st.lists(cells(of.of), max_size=3).map(tuple)
        case Map():
            return st.dictionaries(letters, cells(of.of), max_size=2)
        case Struct():
            return st.fixed_dictionaries({f.name: cells(f.type) for f in of.fields})
        case Decimal():
            return st.integers(-(10**28) + 1, 10**28 - 1) | st.integers(-999, 999)
        case _:
            return {
                INT: ints,
                FLOAT: floats,
                BOOL: st.booleans(),
                STR: sayings,
                TIME: times,
                DAY: st.integers(-10_000, 30_000),
            }[of]


Question = tuple[Node, list[dict[str, Cell]]]


def with_rows(node: Node) -> st.SearchStrategy[Question]:
    row = st.fixed_dictionaries({name: cells(SCHEMA[name]) for name in sorted(references(node))})
    return st.tuples(st.just(node), st.lists(row, max_size=3))


@functools.cache
def leaf(of: DataType) -> st.SearchStrategy[Node]:
    columns = [Ref(name) for name, known in SCHEMA.items() if inner(known) == of]
    found: st.SearchStrategy[Node] = st.sampled_from(columns)
    if of in {INT, FLOAT, BOOL, STR, TIME, DAY, MONEY}:
        return found | cells(of).map(lambda cell: Literal(cell, of))  # type: ignore[arg-type]
    return found


def call(
    name: str, *arguments: st.SearchStrategy[Node], **options: LiteralValue
) -> st.SearchStrategy[Node]:
    return st.tuples(*arguments).map(lambda found: Call(name, found, tuple(options.items())))


@functools.cache
def expressions(of: DataType, depth: int) -> st.SearchStrategy[Node]:
    if depth == 0:
        return leaf(of)
    return st.deferred(lambda: leaf(of) | deeper(of, depth - 1))


def deeper(of: DataType, depth: int) -> st.SearchStrategy[Node]:
    def sub(kind: DataType) -> st.SearchStrategy[Node]:
        return expressions(kind, depth)

    same_kind = sub(of)
    general = [
        st.builds(
            lambda condition, one, other: Case((Branch(condition, one),), other),
            sub(BOOL),
            same_kind,
            same_kind,
        ),
        call("fillnull", same_kind, same_kind),
    ]
    return st.one_of(*general, *special(of, sub))


def zoned(
    name: str, *arguments: st.SearchStrategy[Node], **options: LiteralValue
) -> st.SearchStrategy[Node]:
    """Return a call in a time zone or another."""
    return st.tuples(st.sampled_from(ZONES), *arguments).map(
        lambda found: Call(
            name, found[1:], tuple(sorted({**options, "timezone": found[0]}.items()))
        )
    )


def with_target(
    name: str, target: DataType, *arguments: st.SearchStrategy[Node]
) -> st.SearchStrategy[Node]:
    return st.tuples(*arguments).map(lambda found: Call(name, found, target=target))


def over_items(name: str, over: st.SearchStrategy[Node], *bodies: Node) -> st.SearchStrategy[Node]:
    """Return a function with the variable `e`."""
    return st.tuples(over, st.sampled_from(bodies)).map(
        lambda found: Call(name, found, (("var", "e"),))
    )


ITEM = Var("e")
ONE, TWO = Literal(1, INT), Literal(2, INT)
PREDICATES = (
    Call("gt", (ITEM, ONE)),
    Call("isnull", (Call("mod", (ITEM, TWO)),)),
    Call("lt", (Call("floordiv", (TWO, ITEM)), Ref("i"))),
)
CHANGES = (
    Call("add", (ITEM, Ref("i"))),
    Call("floordiv", (Literal(7, INT), ITEM)),
    Call("num.abs", (ITEM,)),
    Case((Branch(Call("gt", (ITEM, ONE)), ITEM),), TWO),
)


def lists(sub: object) -> list[st.SearchStrategy[Node]]:
    """Return calls that make a list of ints."""
    assert callable(sub)
    small = st.integers(-1, 3).map(lambda count: Literal(count, INT))
    whole = leaf(List(INT))
    return [
        over_items("list.filter", whole, *PREDICATES),
        over_items("list.map", whole, *CHANGES),
        call("repeat", sub(INT), small),
        with_target("str.parse", List(INT), sub(STR)),
        st.builds(
            lambda over: Call(
                "list.map", (over, Call("struct.get", (ITEM,), (("field", "x"),))), (("var", "e"),)
            ),
            with_target("list.zip", POINT, whole, leaf(List(STR))),
        ),
    ]


def special(of: DataType, sub: object) -> list[st.SearchStrategy[Node]]:
    assert callable(sub)
    number = sub(INT) | sub(FLOAT)
    if of == INT:
        binary = [call(n, sub(INT), sub(INT)) for n in ("add", "sub", "mul", "floordiv", "mod")]
        return [
            *binary,
            call("num.pow", sub(INT), sub(INT)),
            call("neg", sub(INT)),
            call("num.abs", sub(INT)),
            call("num.round", number, precision=0),
            call("num.ceil", number),
            call("num.floor", number),
            call("str.len", sub(STR)),
            *[call(f"dt.{part}", sub(TIME)) for part in PARTS],
            *[zoned(f"dt.{part}", sub(TIME)) for part in ("week", "hour")],
            *[call("dt.since", sub(TIME), sub(TIME), unit=unit) for unit in UNITS],
            call("dt.since_epoch", sub(TIME), unit="hour"),
            call("list.len", leaf(List(INT))),
            call("list.at", leaf(List(INT)), sub(INT)),
            call("list.sum", sub(List(INT))),
            call("list.max", leaf(List(INT))),
            call("struct.get", leaf(POINT), field="x"),
            call("dict.get", leaf(Map(INT)), sub(STR), sub(INT)),
            call("dict.len", leaf(Map(INT))),
            sub(STR).map(lambda node: Call("str.parse", (node,), target=INT)),
        ]
    if of == FLOAT:
        binary = [call(n, number, sub(FLOAT)) for n in ("add", "sub", "mul", "floordiv", "mod")]
        names = ("sqrt", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan")
        return [
            *binary,
            call("div", number, number),
            call("div", sub(MONEY), sub(INT)),
            *[call(f"num.{name}", number) for name in names],
            call("num.log", number, base=10.0),
            call("num.round", number, precision=2),
            call("num.pow", sub(FLOAT), number),
            call("num.abs", sub(FLOAT)),
            call("neg", sub(FLOAT)),
            call("list.mean", leaf(List(INT))),
            call("list.sum", leaf(List(Optional(FLOAT)))),
            call("list.min", leaf(List(Optional(FLOAT)))),
            sub(INT).map(lambda node: Call("cast", (node,), target=Optional(FLOAT))),
        ]
    if of == BOOL:
        ordered = [number, sub(STR), sub(TIME), sub(DAY), sub(MONEY) | leaf(FINE) | sub(INT)]
        comparisons = ("eq", "ne", "lt", "le", "gt", "ge")
        compared = [call(name, kind, kind) for name in comparisons for kind in ordered]
        return [
            *compared,
            call("eq", leaf(POINT), leaf(POINT)),
            call("ne", leaf(List(INT)), leaf(List(INT))),
            call("and", sub(BOOL), sub(BOOL)),
            call("or", sub(BOOL), sub(BOOL)),
            call("not", sub(BOOL)),
            *[call("isnull", sub(kind)) for kind in (INT, FLOAT, STR, MONEY, POINT, List(INT))],
            call("is_in", number, leaf(INT), leaf(FLOAT)),
            call("is_in", sub(STR), leaf(STR), leaf(STR)),
            call("num.is_nan", number),
            call("num.is_infinite", number),
            call("str.contains", sub(STR), sub(STR)),
            call("str.startswith", sub(STR), sub(STR)),
            call("str.endswith", sub(STR), sub(STR)),
            call("list.contains", leaf(List(Optional(FLOAT))), number),
            call("list.hasnull", leaf(List(Optional(FLOAT)))),
            call("dict.contains", leaf(Map(INT)), sub(STR)),
            call("list.all", leaf(List(Optional(BOOL)))),
            call("list.any", leaf(List(Optional(BOOL)))),
        ]
    if of == STR:
        return [
            call("add", sub(STR), sub(STR)),
            call("str.concat", sub(STR), sub(STR)),
            call("str.lower", sub(STR)),
            call("str.upper", sub(STR)),
            call("num.to_string", number | sub(MONEY)),
            call("dt.strftime", sub(TIME), format="%Y-%m-%dT%H:%M:%S.%f %j%%"),
            call("list.at", call("str.split", sub(STR), sep=","), sub(INT)),
            call("struct.get", sub(POINT), field="label"),
            zoned("dt.strftime", sub(TIME), format="%Y-%m-%d %H:%M %Z"),
            call("dt.strftime", sub(TIME), format="%a %e %b %y, %I %p %G-%V-%u %s%.3f"),
            call("dt.strftime", sub(TIME), format="%C %g %U %W %.f %9f %-d %_j %-H %0e %::z"),
            *[call("str.json_extract", sub(STR), path=path) for path in ("$.x", "$[0]", "$")],
        ]
    if of == TIME:
        return [
            call("dt.add", sub(TIME), duration_us=86_400_000_000),
            call("dt.sub", sub(TIME), duration_us=1),
            call("from_epoch", sub(INT), unit="millisecond"),
            *[
                call("str.strptime", sub(STR), format=form)
                for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m", "%C%y-%-m-%_d", "%Y-%W-%u")
            ],
            zoned("str.strptime", sub(STR), format="%Y-%m-%d %H:%M"),
            st.just(Call("now", ())),
        ]
    if of == MONEY:
        return [
            call("add", sub(MONEY), sub(MONEY) | sub(INT)),
            call("sub", sub(INT), sub(MONEY)),
            call("mul", sub(MONEY), sub(INT)),
            call("neg", sub(MONEY)),
            call("num.abs", sub(MONEY)),
            call("mod", sub(MONEY), sub(INT)),
        ]
    return lists(sub) if of == List(INT) else structs(sub) if of == POINT else []


def structs(sub: object) -> list[st.SearchStrategy[Node]]:
    """Return calls that make a struct."""
    assert callable(sub)
    return [
        with_target("struct.make", POINT, leaf_of(INT), sub(STR)),
        with_target("str.parse", POINT, sub(STR)),
    ]


def leaf_of(of: DataType) -> st.SearchStrategy[Node]:
    """Return columns and constants that are never null."""
    columns = [Ref(name) for name, known in SCHEMA.items() if known == of]
    return st.sampled_from(columns) | cells(of).map(lambda cell: Literal(cell, of))  # type: ignore[arg-type]


any_expression = st.one_of(
    *[expressions(of, 3) for of in (INT, FLOAT, BOOL, STR, TIME, MONEY)],
    *[expressions(of, 2) for of in (List(INT), POINT)],
    *[expressions(of, 1) for of in (DAY, Map(INT), FINE)],
)


questions = any_expression.flatmap(with_rows)
