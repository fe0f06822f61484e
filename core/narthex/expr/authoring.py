"""What authors write: `col`, `lit`, `when` and the methods and operators of an expression."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date
from datetime import datetime as python_datetime
from decimal import Decimal as PythonDecimal
from typing import NoReturn, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs
from typing_extensions import override

from narthex.annotations import Annotation, parse_annotation
from narthex.errors import ExpressionInvalid
from narthex.expr.namespaces import Dates, Dicts, Lists, Numbers, Strings, Structs
from narthex.expr.nodes import Branch, Call, Case, Literal, LiteralValue, Node, Ref
from narthex.expr.render import render
from narthex.expr.typing import infer
from narthex.times import to_micros
from narthex.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Null,
    Optional,
    Str,
    inner,
)

InvalidExprException = ExpressionInvalid
"""The error of an expression that cannot be built; the name that Fennel's authors know."""

Operand: TypeAlias = "Expr | LiteralInput"
LiteralInput: TypeAlias = object
"""A constant: bool, int, float, str, bytes, None, an instant, a day, a decimal."""

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@attrs.frozen(eq=False)
class TypedExpr:
    """A whole expression with the type that its author says it has.

    Attributes:
        annotation: As written, such as `Optional[int]`; `dtype` is what it means.
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
        """The expression as a value."""
        return self.expr.node

    @override
    def __str__(self) -> str:
        return str(self.expr)


class Expr:
    """An expression that is being written; `node` is the frozen value that travels."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]  # `==` builds an expression

    def __init__(self, node: Node) -> None:
        self.node = node

    @override
    def __repr__(self) -> str:
        return render(self.node)

    def call(self, function: str, *operands: Operand, **options: LiteralValue) -> "Expr":
        """Apply a function of `narthex.expr.functions` with this as its first argument."""
        arguments = (self.node, *(to_expr(operand).node for operand in operands))
        return Expr(Call(function, arguments, tuple(sorted(options.items()))))

    def _reflected(self, function: str, operand: Operand) -> "Expr":
        return to_expr(operand).call(function, self)

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
        self._refuse("`^` is no operator of expressions", "write `a != b` of two bools")

    __rxor__ = __xor__

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 (it never returns)
        self._refuse(
            f"`{self}` has no truth value before it meets rows",
            "write `&`, `|`, `~` and `when(...)` instead of `and`, `or`, `not` and `if`",
        )

    def __iter__(self) -> NoReturn:
        self._refuse(f"`{self}` cannot be iterated", "use `.list`")

    def __contains__(self, _: object) -> NoReturn:
        self._refuse(f"`in {self}` is no expression", "use `.list.contains` or `.dict.contains`")

    def _refuse(self, message: str, hint: str) -> NoReturn:
        raise InvalidExprException(message, hint=hint)

    def isnull(self) -> "Expr":
        """Whether there is no value."""
        return self.call("isnull")

    def fillnull(self, value: Operand) -> "Expr":
        """The value, or `value` where there is none."""
        return self.call("fillnull", value)

    def is_in(self, values: Sequence[LiteralInput]) -> "Expr":
        """Whether it equals one of the literals; null of null."""
        if not _are_literals(values):
            raise InvalidExprException(
                f"`is_in` found {values!r}; it takes a list of at least one literal"
            )
        return self.call("is_in", *(lit(value) for value in values))

    def abs(self) -> "Expr":
        """The distance from 0."""
        return self.num.abs()

    def round(self, precision: int = 0) -> "Expr":
        """The nearest number with that many digits after the point."""
        return self.num.round(precision)

    def ceil(self) -> "Expr":
        """The least int that is not less."""
        return self.num.ceil()

    def floor(self) -> "Expr":
        """The greatest int that is not greater."""
        return self.num.floor()

    def typeof(self, schema: Mapping[str, Annotation]) -> DataType:
        """Give the type of the expression over columns with these annotations.

        Raises:
            ExpressionTypeError: It has none.
        """
        return infer(self.node, {name: parse_annotation(of) for name, of in schema.items()})

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
        return Expr(Call("str.parse", (self.node,), target=parse_annotation(target)))

    def astype(self, dtype: Annotation) -> TypedExpr:
        """Say the type of the whole expression."""
        return TypedExpr(self, dtype)


def _are_literals(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes) and len(values) > 0


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def to_expr(operand: Operand) -> Expr:
    """Take an operand as an expression; what is none is a literal.

    Raises:
        InvalidExprException: It is a TypedExpr, a function, or no literal.
    """
    if isinstance(operand, Expr):
        return operand
    if isinstance(operand, TypedExpr):
        raise InvalidExprException(
            f"`{operand}.astype(...)` stands inside another expression",
            hint="`astype` is the last call on a whole expression",
        )
    return lit(operand)


def col(name: str) -> Expr:
    """The value of a column."""
    if not _is_name(name):
        raise InvalidExprException(f"`col` found {name!r}; it takes the name of a column")
    return Expr(Ref(name))


def lit(value: LiteralInput, type: Annotation | None = None) -> Expr:
    """A constant, of the type given or of its own."""
    if type is not None:
        dtype = parse_annotation(type)
        return Expr(Literal(_typed_value(value, dtype), dtype))
    found = _own_type(value)
    return Expr(Literal(_typed_value(value, found), found))


def _own_type(value: object) -> DataType:
    for kind, of in _LITERALS:
        if isinstance(value, kind):
            return of
    if isinstance(value, PythonDecimal):
        exponent = value.as_tuple().exponent
        return Decimal(max(-exponent, 1) if isinstance(exponent, int) else 1)
    hint = "call it, or pass its source to an extractor" if callable(value) else "give its `type`"
    raise InvalidExprException(f"{value!r} cannot be a literal of an expression", hint=hint)


_LITERALS: tuple[tuple[type, DataType], ...] = (
    (type(None), Null()),
    (bool, Bool()),
    (int, Int()),
    (float, Float()),
    (str, Str()),
    (bytes, Bytes()),
    (python_datetime, Datetime()),
    (date, Date()),
)


def _typed_value(value: object, of: DataType) -> LiteralValue:
    if value is None and isinstance(of, Optional | Null):
        return None
    found = _scalar(value, inner(of))
    if found is not None:
        return found
    match inner(of), value:
        case List(of=item), list() | tuple():
            return tuple(_typed_value(member, item) for member in value)
        case _:
            raise InvalidExprException(f"{value!r} is not a literal of that type")


def _scalar(value: object, of: DataType) -> LiteralValue:
    match of, value:
        case Bool(), bool():
            return value
        case ((Int() | Float() | Decimal() | Date() | Datetime()), bool()):
            return None
        case Int(), int() if -(2**63) <= value < 2**63:
            return value
        case Float(), int() | float():
            return float(value)
        case Str(), str():
            return value
        case Bytes(), bytes():
            return value
        case _:
            return _special(value, of)


def _special(value: object, of: DataType) -> LiteralValue:
    match of, value:
        case Datetime(), python_datetime():
            return to_micros(value)
        case Date(), date():
            return value.toordinal() - _EPOCH_ORDINAL
        case Decimal(scale=scale), int() | PythonDecimal():
            unscaled = PythonDecimal(value).scaleb(scale)
            whole = unscaled == unscaled.to_integral_value()
            return int(unscaled) if whole else None
        case _:
            return None


def now() -> Expr:
    """The instant of the question; in a pipeline, that of the row's processing."""
    return Expr(Call("now", ()))


def from_epoch(expr: Operand, unit: str) -> Expr:
    """The instant that many units after 1970-01-01T00:00Z."""
    if unit not in {"second", "millisecond", "microsecond"}:
        raise InvalidExprException(
            f"`from_epoch` found unit {unit!r}; it takes second, millisecond or microsecond"
        )
    return to_expr(expr).call("from_epoch", unit=unit)


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
    """The instant of a wall clock in a timezone, as a constant."""
    try:
        zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
        clock = (year, month, day, hour, minute, second, microsecond)
        return lit(python_datetime(*clock, tzinfo=zone))
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise InvalidExprException(f"no such instant: {error}") from error


class When:
    """`when(condition)`, which waits for its `then`."""

    def __init__(self, condition: Operand, branches: tuple[Branch, ...] = ()) -> None:
        self._condition = to_expr(condition)
        self._branches = branches

    def then(self, value: Operand) -> "Then":
        """Say the value where the condition holds."""
        branch = Branch(self._condition.node, to_expr(value).node)
        return Then((*self._branches, branch))

    def __getattr__(self, name: str) -> NoReturn:
        raise InvalidExprException(
            f"`when({self._condition})` has no `then`", hint=f"write `.then(...)` before `.{name}`"
        )


class Then(Expr):
    """Branches so far; as an expression, null where none holds."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[Branch, ...]) -> None:
        super().__init__(Case(branches, Literal(None, Null())))
        self._branches = branches

    def when(self, condition: Operand) -> When:
        """Add a branch for where no former one holds."""
        return When(condition, self._branches)

    def otherwise(self, value: Operand) -> Expr:
        """Say the value where no branch holds."""
        return Expr(Case(self._branches, to_expr(value).node))


def when(condition: Operand) -> When:
    """The value of `then` where the condition holds; null counts as not holding."""
    return When(condition)
