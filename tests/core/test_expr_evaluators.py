"""Each evaluator of expressions gives what plain Python gives, and types never lie."""

import functools
import math

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narthex.evaluate.columns import cells_of, frame_of, series_of
from narthex.evaluate.expressions import evaluate as evaluate_columns
from narthex.expr.functions import FUNCTIONS
from narthex.expr.nodes import Branch, Call, Case, Literal, LiteralValue, Node, Ref
from narthex.expr.plain import evaluate, prepare
from narthex.expr.plain.numbers import same
from narthex.expr.typing import fit, infer, is_total, references
from narthex.facts import Cell
from narthex.types import (
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
    optional,
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
    "p": POINT,
    "k": Map(INT),
}
SCHEMA: dict[str, DataType] = {
    **KINDS,
    **{f"{name}_or_null": Optional(of) for name, of in KINDS.items()},
}
NOW_US = 1_385_000_000_123_456

letters = st.text(alphabet="aB1%é Σßİ語,", max_size=5)
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
                STR: letters,
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


def special(of: DataType, sub: object) -> list[st.SearchStrategy[Node]]:
    assert callable(sub)
    number = sub(INT) | sub(FLOAT)
    units = ["year", "week", "day", "hour", "second", "millisecond", "microsecond"]
    parts = ["year", "month", "week", "day", "hour", "minute", "second", "millisecond"]
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
            *[call(f"dt.{part}", sub(TIME)) for part in [*parts, "microsecond"]],
            *[call("dt.since", sub(TIME), sub(TIME), unit=unit) for unit in units],
            call("dt.since_epoch", sub(TIME), unit="hour"),
            call("list.len", leaf(List(INT))),
            call("list.at", leaf(List(INT)), sub(INT)),
            call("list.sum", leaf(List(INT))),
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
        names = ("eq", "ne", "lt", "le", "gt", "ge")
        compared = [call(name, kind, kind) for name in names for kind in ordered]
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
            call("struct.get", leaf(POINT), field="label"),
        ]
    if of == TIME:
        return [
            call("dt.add", sub(TIME), duration_us=86_400_000_000),
            call("dt.sub", sub(TIME), duration_us=1),
            call("from_epoch", sub(INT), unit="millisecond"),
            call("str.strptime", sub(STR), format="%Y-%m-%d"),
            st.just(Call("now", ())),
        ]
    if of == MONEY:
        return [
            call("add", sub(MONEY), sub(MONEY) | sub(INT)),
            call("sub", sub(INT), sub(MONEY)),
            call("mul", sub(MONEY), sub(INT)),
            call("neg", sub(MONEY)),
            call("num.abs", sub(MONEY)),
        ]
    return []


any_expression = st.one_of(
    *[expressions(of, 3) for of in (INT, FLOAT, BOOL, STR, TIME, MONEY)],
    *[expressions(of, 1) for of in (DAY, List(INT), POINT, Map(INT), FINE)],
)


questions = any_expression.flatmap(with_rows)


def fits(cell: Cell, of: DataType) -> bool:
    match of, cell:
        case Optional(), None:
            return True
        case Optional(), _:
            return fits(cell, of.of)
        case List(), tuple():
            return all(fits(item, of.of) for item in cell)
        case Map(), dict():
            return all(fits(item, of.of) for item in cell.values())
        case Struct(), dict():
            return all(fits(cell[field.name], field.type) for field in of.fields)
        case _:
            return fits_scalar(cell, of)


def fits_scalar(cell: Cell, of: DataType) -> bool:
    wanted = {FLOAT: float, BOOL: bool, STR: str}.get(of, int)
    limit = 10**28 if isinstance(of, Decimal) else 2**63
    return type(cell) is wanted and (type(cell) is not int or -limit <= cell < limit)


quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def equal(one: Cell, other: Cell) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return same(one, other) and (one != 0 or math.copysign(1, one) == math.copysign(1, other))
    return type(one) is type(other) and same(one, other)


@quick
@given(questions)
def test_columns_give_what_rows_give(question: Question) -> None:
    node, given_rows = question
    prepared = prepare(node, SCHEMA)
    wanted = [prepared(row, NOW_US) for row in given_rows]
    used = {name: SCHEMA[name] for name in sorted(references(node))}
    columns = {name: [row[name] for row in given_rows] for name in used}
    frame = pl.DataFrame({"row": range(len(given_rows))}).with_columns(
        series_of(name, column, SCHEMA[name]) for name, column in columns.items()
    )

    found = cells_of(evaluate_columns(node, frame, SCHEMA, NOW_US), infer(node, SCHEMA))

    assert len(found) == len(wanted)
    assert all(map(equal, found, wanted)), (found, wanted)


@quick
@given(questions)
def test_a_value_is_of_the_type_that_was_inferred(question: Question) -> None:
    node, given_rows = question
    of = infer(node, SCHEMA)
    allowed = of if is_total(node) else optional(of)

    for row in given_rows:
        assert fits(evaluate(node, row, SCHEMA, now_us=NOW_US), allowed)


@quick
@given(expressions(INT, 2).flatmap(with_rows))
def test_an_int_expression_fits_a_float_column(question: Question) -> None:
    node, given_rows = question
    target = optional(FLOAT)

    fitted = fit(node, SCHEMA, target=target)

    assert infer(fitted, SCHEMA) == target
    for row in given_rows:
        found, before = (evaluate(one, row, SCHEMA, now_us=NOW_US) for one in (fitted, node))
        assert found == (None if before is None else float(before))  # type: ignore[arg-type]


@quick
@given(st.data(), st.sampled_from([INT, FLOAT, STR, TIME, DAY]))
def test_comparisons_are_a_total_order(data: st.DataObject, of: DataType) -> None:
    one, other = (data.draw(cells(of)) for _ in range(2))
    row: dict[str, Cell] = {"x": one, "y": other}

    held = [
        evaluate(Call(name, (Ref("x"), Ref("y"))), row, {"x": of, "y": of})
        for name in ("lt", "eq", "gt")
    ]

    assert held.count(True) == 1
    assert evaluate(Call("le", (Ref("x"), Ref("y"))), row) is (held[0] or held[1])
    assert evaluate(Call("ge", (Ref("x"), Ref("y"))), row) is (held[2] or held[1])
    assert evaluate(Call("ne", (Ref("x"), Ref("y"))), row) is (not held[1])


@quick
@given(questions)
def test_where_nothing_is_null_and_all_is_defined_nothing_becomes_null(question: Question) -> None:
    node, given_rows = question
    of = infer(node, SCHEMA)

    for row in given_rows:
        value = evaluate(node, row, SCHEMA, now_us=NOW_US)
        assert value is not None or isinstance(of, Optional) or not is_total(node)


def test_the_generated_expressions_reach_every_function() -> None:
    names = {name for of in (INT, FLOAT, BOOL, STR, TIME, MONEY) for name in named(of)}

    unreached = {"list.all", "list.any"}
    assert set(FUNCTIONS) - names == unreached


def named(of: DataType) -> set[str]:
    found: set[str] = set()
    for strategy in [*special(of, leaf), *[call("fillnull", leaf(of), leaf(of))]]:
        pending = [sample(strategy)]
        while pending:
            node = pending.pop()
            if isinstance(node, Call):
                found.add(node.function)
                pending += node.arguments
    return found


def sample(strategy: st.SearchStrategy[Node]) -> Node:
    caught: list[Node] = []

    @settings(max_examples=1, database=None, derandomize=True)
    @given(strategy)
    def catch(node: Node) -> None:
        caught.append(node)

    catch()
    return caught[0]


def test_a_constant_has_a_value_on_each_row() -> None:
    frame = pl.DataFrame({"a": series_of("a", [1, 2, 3], INT)})

    found = evaluate_columns(Literal("x", STR), frame, {"a": INT})

    assert found.to_list() == ["x", "x", "x"]


def test_an_empty_frame_gives_an_empty_series_of_the_type() -> None:
    frame = frame_of({"a": []}, {"a": INT})
    node = Call("div", (Ref("a"), Literal(2, INT)))

    found = evaluate_columns(node, frame, {"a": INT})

    assert found.dtype == pl.Float64
    assert found.len() == 0
