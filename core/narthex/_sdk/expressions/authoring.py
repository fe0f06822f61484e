"""The builders `col`, `lit` and `when`, and the methods and operators of expressions."""

import enum
from collections.abc import Mapping, Sequence
from datetime import UTC
from datetime import datetime as python_datetime
from typing import NoReturn, TypeAlias

import attrs
from typing_extensions import override

from narthex._expr.render import render
from narthex._expr.time_zones import UnknownZoneError, instant_of
from narthex._expr.type_lattice import promotable
from narthex._expr.typing import infer
from narthex._ir.expression_nodes import (
    MOST_NESTING,
    Branch,
    Call,
    Case,
    Literal,
    LiteralValue,
    Node,
    Ref,
    Var,
    nesting_of,
)
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, Datetime, Null, Struct
from narthex._sdk.annotations import Annotation, parse_annotation
from narthex._sdk.expressions.constants import are_literals, literal
from narthex._sdk.expressions.frames import EvalContext, FrameLike, SeriesLike, evaluate_frame
from narthex._sdk.expressions.namespaces import Dates, Dicts, Lists, Numbers, Strings, Structs
from narthex._sdk.expressions.written_types import annotation_of, classes_in, types_of
from narthex.errors import ExpressionInvalid

InvalidExprException = ExpressionInvalid
"""The error of an expression that cannot be built, under Fennel's name."""

Operand: TypeAlias = "Expr | LiteralInput"
LiteralInput: TypeAlias = object
"""A constant: bool, int, float, str, bytes, None, an instant, a day, a decimal."""


class TimeUnit(enum.StrEnum):
    """A unit of time; its name as text is accepted too."""

    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"
    MICROSECOND = "microsecond"


@attrs.frozen(eq=False)
class TypedExpr:
    """A whole expression with the type that its author declares.

    Attributes:
        annotation: As written, such as `Optional[int]`; `dtype` is its type.
    """

    expr: "Expr"
    annotation: Annotation

    @property
    def dtype(self) -> DataType:
        """The type that the annotation means.

        Raises:
            TypeNotSupported: No column can have it.
        """
        return parse_annotation(self.annotation)

    @property
    def node(self) -> Node:
        """The expression as a frozen value."""
        return self.expr.node

    @override
    def __str__(self) -> str:
        return str(self.expr)


class Expr:
    """An expression under construction; `node` is the frozen value that a commit carries.

    Attributes:
        classes: The `@struct` classes that its author named in it.
    """

    __slots__ = ("classes", "node")
    __hash__ = None  # type: ignore[assignment]  # `==` builds an expression

    def __init__(self, node: Node, classes: frozenset[type] = frozenset()) -> None:
        if nesting_of(node) > MOST_NESTING:
            raise InvalidExprException(
                "an expression has about a hundred operators that use each other's results, which "
                "is the most",
                hint="assign a part of it to a column of its own, and go on with that column",
            )
        self.node = node
        self.classes = classes

    @override
    def __repr__(self) -> str:
        return render(self.node)

    def _made(self, node: Node, classes: frozenset[type]) -> "Expr":
        """Return an expression that is computed from this one; a subclass returns its own kind."""
        return Expr(node, classes)

    def call(self, function: str, *operands: Operand, **options: LiteralValue) -> "Expr":
        """Apply a function of `narthex._expr.functions` with this as its first argument."""
        return self._applied(function, [self, *map(to_expr, operands)], options)

    def _reflected(self, function: str, operand: Operand) -> "Expr":
        return self._applied(function, [to_expr(operand), self], {})

    def _applied(
        self, function: str, given: Sequence["Expr"], options: Mapping[str, LiteralValue]
    ) -> "Expr":
        arguments = tuple(one.node for one in given)
        node = Call(function, arguments, tuple(sorted(options.items())))
        return self._made(node, classes_of(given))

    def __add__(self, other: Operand) -> "Expr":
        return self.call("add", other)

    def __radd__(self, other: Operand) -> "Expr":
        return self._reflected("add", other)

    def __sub__(self, other: Operand) -> "Expr":
        return self.call("sub", other)

    def __rsub__(self, other: Operand) -> "Expr":
        return self._reflected("sub", other)

    def __mul__(self, other: Operand) -> "Expr":
        return self.call("mul", other)

    def __rmul__(self, other: Operand) -> "Expr":
        return self._reflected("mul", other)

    def __truediv__(self, other: Operand) -> "Expr":
        return self.call("div", other)

    def __rtruediv__(self, other: Operand) -> "Expr":
        return self._reflected("div", other)

    def __floordiv__(self, other: Operand) -> "Expr":
        return self.call("floordiv", other)

    def __rfloordiv__(self, other: Operand) -> "Expr":
        return self._reflected("floordiv", other)

    def __mod__(self, other: Operand) -> "Expr":
        return self.call("mod", other)

    def __rmod__(self, other: Operand) -> "Expr":
        return self._reflected("mod", other)

    @override
    def __eq__(self, other: Operand) -> "Expr":  # type: ignore[override]
        return self.call("eq", other)

    @override
    def __ne__(self, other: Operand) -> "Expr":  # type: ignore[override]
        return self.call("ne", other)

    def __lt__(self, other: Operand) -> "Expr":
        return self.call("lt", other)

    def __le__(self, other: Operand) -> "Expr":
        return self.call("le", other)

    def __gt__(self, other: Operand) -> "Expr":
        return self.call("gt", other)

    def __ge__(self, other: Operand) -> "Expr":
        return self.call("ge", other)

    def __and__(self, other: Operand) -> "Expr":
        return self.call("and", other)

    def __rand__(self, other: Operand) -> "Expr":
        return self._reflected("and", other)

    def __or__(self, other: Operand) -> "Expr":
        return self.call("or", other)

    def __ror__(self, other: Operand) -> "Expr":
        return self._reflected("or", other)

    def __invert__(self) -> "Expr":
        return self.call("not")

    def __neg__(self) -> "Expr":
        return self.call("neg")

    def __xor__(self, other: Operand) -> NoReturn:
        self._refuse("`^` is not an operator of expressions", "write `a != b` of two bools")

    __rxor__ = __xor__

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 (it never returns)
        self._refuse(
            f"`{self}` has no truth value before it meets rows",
            "write `&`, `|`, `~` and `when(...)` instead of `and`, `or`, `not` and `if`",
        )

    def __getitem__(self, _: object) -> NoReturn:
        self._refuse(
            f"`{self}[...]` is not supported", "use `.list.at`, `.dict.get` or `.struct.get`"
        )

    def __iter__(self) -> NoReturn:
        self._refuse(f"`{self}` cannot be iterated", "use `.list`")

    def __contains__(self, _: object) -> NoReturn:
        self._refuse(f"`in {self}` is not supported", "use `.list.contains` or `.dict.contains`")

    def _refuse(self, message: str, hint: str) -> NoReturn:
        raise InvalidExprException(message, hint=hint)

    def isnull(self) -> "Expr":
        """Whether the value is null."""
        return self.call("isnull")

    def fillnull(self, value: Operand) -> "Expr":
        """The value, or `value` if it is null."""
        return self.call("fillnull", value)

    def is_in(self, values: Sequence[Operand]) -> "Expr":
        """Whether it equals one of the values; null for null."""
        if not are_literals(values):
            raise InvalidExprException(
                f"`is_in` got {values!r}; it takes a list of at least one value"
            )
        return self.call("is_in", *values)

    def abs(self) -> "Expr":
        """The distance from 0."""
        return self.num.abs()

    def round(self, precision: int = 0) -> "Expr":
        """The nearest number with that many decimal places."""
        return self.num.round(precision)

    def ceil(self) -> "Expr":
        """The smallest int that is not less."""
        return self.num.ceil()

    def floor(self) -> "Expr":
        """The largest int that is not greater."""
        return self.num.floor()

    def typeof(self, schema: Mapping[str, Annotation] | None = None) -> Annotation:
        """Return the type of the expression over columns with these annotations, as an annotation.

        Raises:
            ExpressionTypeError: It has none.
        """
        given = schema or {}
        classes = classes_in([*given.values(), *self.classes])
        return annotation_of(infer(self.node, types_of(given)), classes)

    def matches_type(
        self, dtype: Annotation, schema: Mapping[str, Annotation] | None = None
    ) -> bool:
        """Whether a column of that type, without its restrictions, can contain the values.

        Raises:
            ExpressionTypeError: The expression has no type over the columns.
        """
        return promotable(infer(self.node, types_of(schema or {})), parse_annotation(dtype))

    def eval(
        self,
        input_df: FrameLike,
        schema: Mapping[str, Annotation],
        output_dtype: Annotation | None = None,
        parse: bool = True,
        context: EvalContext | None = None,
    ) -> SeriesLike:
        """Evaluate the expression on a pandas frame; return a series with the frame's index.

        Args:
            input_df: A frame with at least the columns of the schema; NaN and NA are null.
            schema: The annotations of the columns.
            output_dtype: The type of the result, if it is not the expression's own.
            parse: Return structs as instances of their classes, otherwise as dicts.
            context: Names the column of `now()`; by default, it is the current time.

        Raises:
            ExpressionTypeError: It has no type, or one that cannot be promoted to the output's.
            InvalidExprException: The frame lacks a column, or a value is not of its type.
        """
        named = [*schema.values(), *self.classes, output_dtype]
        return evaluate_frame(
            self.node,
            input_df,
            types_of(schema),
            target=None if output_dtype is None else parse_annotation(output_dtype),
            classes=classes_in(named) if parse else {},
            context=context or EvalContext(),
        )

    @property
    def num(self) -> "Numbers[Expr]":
        """Functions of numbers."""
        return Numbers(self.call)

    @property
    def str(self) -> "Strings[Expr]":
        """Functions of text."""
        return Strings(self.call, self._parsed)

    @property
    def dt(self) -> "Dates[Expr]":
        """Functions of instants."""
        return Dates(self.call)

    @property
    def list(self) -> "Lists[Expr]":
        """Functions of lists."""
        return Lists(self.call)

    @property
    def struct(self) -> "Structs[Expr]":
        """Functions of structs."""
        return Structs(self.call)

    @property
    def dict(self) -> "Dicts[Expr]":
        """Functions of dicts."""
        return Dicts(self.call)

    def _parsed(self, target: Annotation) -> "Expr":
        classes = self.classes | frozenset(classes_in([target]).values())
        node = Call("str.parse", (self.node,), target=parse_annotation(target))
        return self._made(node, classes)

    def astype(self, dtype: Annotation) -> TypedExpr:
        """Declare the type of the whole expression."""
        return TypedExpr(self, dtype)


def classes_of(expressions: Sequence[Expr]) -> frozenset[type]:
    """Return the `@struct` classes that are named in expressions."""
    return frozenset().union(*(expression.classes for expression in expressions))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def to_expr(operand: Operand) -> Expr:
    """Convert an operand to an expression; other values become literals.

    Raises:
        InvalidExprException: It is a TypedExpr, a function, or not a literal.
    """
    if isinstance(operand, Expr):
        return operand
    if isinstance(operand, TypedExpr):
        raise InvalidExprException(
            f"`{operand}.astype(...)` is inside another expression",
            hint="`astype` is the last call on a whole expression",
        )
    return lit(operand)


def col(name: str) -> Expr:
    """The value of a column."""
    if not _is_name(name):
        raise InvalidExprException(f"`col` got {name!r}; it takes the name of a column")
    return Expr(Ref(name))


def var(name: str) -> Expr:
    """The current item inside `.list.map(name, ...)` and `.list.filter(name, ...)`."""
    if not _is_name(name):
        raise InvalidExprException(f"`var` got {name!r}; it takes the name of a variable")
    return Expr(Var(name))


def lit(value: LiteralInput, type: Annotation | None = None) -> Expr:
    """A constant, of the given type or of its own."""
    if type is None:
        return Expr(literal(value))
    classes = frozenset(classes_in([type]).values())
    return Expr(literal(value, parse_annotation(type)), classes)


def repeat(value: Operand, by: Operand) -> Expr:
    """A list that repeats the value."""
    return to_expr(value).call("repeat", by)


def make_struct(fields: Mapping[str, Operand], type: Annotation) -> Expr:
    """A struct with these members; equivalent to `S.expr(member=...)`."""
    return _with_members("struct.make", fields, type)


def zip_struct(fields: Mapping[str, Operand], type: Annotation) -> Expr:
    """A list of structs of the lists' items; equivalent to `S.zip(member=...)`."""
    return _with_members("list.zip", fields, type)


def _with_members(function: str, fields: Mapping[str, Operand], type: Annotation) -> Expr:
    target = parse_annotation(type)
    if not isinstance(target, Struct):
        raise InvalidExprException(f"`{type_name(target)}` is not a struct")
    names = [field.name for field in target.fields]
    wrong = [f"it has no member `{name}`" for name in fields if name not in names]
    wrong += [f"member `{name}` is missing" for name in names if name not in fields]
    if wrong:
        raise InvalidExprException(f"struct `{type_name(target)}`: {'; '.join(wrong)}")
    members = [to_expr(fields[name]) for name in names]
    nodes = tuple(member.node for member in members)
    classes = classes_of(members) | frozenset(classes_in([type]).values())
    return Expr(Call(function, nodes, target=target), classes)


def now() -> Expr:
    """The instant of the query; in a pipeline, the row's event time."""
    return Expr(Call("now", ()))


def from_epoch(expr: Operand, unit: str) -> Expr:
    """The instant that many units after 1970-01-01T00:00Z."""
    name = str(unit).lower()
    if name not in {"second", "millisecond", "microsecond"}:
        raise InvalidExprException(
            f"`from_epoch` got the unit {unit!r}; it takes second, millisecond or microsecond"
        )
    return to_expr(expr).call("from_epoch", unit=name)


def datetime(  # noqa: PLR0913, PLR0917 (the parts of an instant, as in the standard library)
    year: int,
    month: int,
    day: int,
    hour: int = 0,
    minute: int = 0,
    second: int = 0,
    microsecond: int = 0,
    timezone: str = "UTC",
) -> Expr:
    """The instant of a wall-clock time in a time zone, as a constant."""
    try:
        clock = python_datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)
        instant = instant_of(clock, timezone or "UTC")
    except (ValueError, UnknownZoneError) as error:
        raise InvalidExprException(f"no such instant: {error}") from error
    if instant is None:
        raise InvalidExprException(
            f"no such instant: clocks of {timezone} never show {clock:%Y-%m-%d %H:%M:%S}"
        )
    return Expr(Literal(instant, Datetime()))


class When:
    """`when(condition)`, before its `then`."""

    def __init__(self, condition: Operand, before: "Then | None" = None) -> None:
        self._condition = to_expr(condition)
        self._before = before

    def then(self, value: Operand) -> "Then":
        """Set the value if the condition is true."""
        given = [self._condition, to_expr(value)]
        branch = Branch(given[0].node, given[1].node)
        if self._before is None:
            return Then((branch,), classes_of(given))
        return Then((*self._before.branches, branch), classes_of([self._before, *given]))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidExprException(
            f"`when({self._condition})` has no `then`", hint=f"write `.then(...)` before `.{name}`"
        )


class Then(Expr):
    """The branches so far; as an expression, null if no condition is true."""

    __slots__ = ("branches",)

    def __init__(self, branches: tuple[Branch, ...], classes: frozenset[type]) -> None:
        super().__init__(Case(branches, Literal(None, Null())), classes)
        self.branches = branches

    def when(self, condition: Operand) -> When:
        """Add a branch that applies if no former condition is true."""
        return When(condition, self)

    def otherwise(self, value: Operand) -> Expr:
        """Set the value if no condition is true."""
        last = to_expr(value)
        return Expr(Case(self.branches, last.node), classes_of([self, last]))


def when(condition: Operand) -> When:
    """The value of `then` if the condition is true; a null condition counts as false."""
    return When(condition)
