# mypy: disable-error-code="type-arg, explicit-any"
"""Expressions as Fennel's users expect them: built-in errors, and dtypes of evaluated series."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, ParamSpec

import pandas as pd
from typing_extensions import override

from narthex import expr
from narthex._expr.typing import ExpressionTypeError, infer
from narthex._ir.expression_nodes import Call, Node
from narthex._ir.types import Float, Null, Optional
from narthex._sdk.annotations import Annotation
from narthex._sdk.expressions.authoring import Operand, Then, When
from narthex._sdk.expressions.frames import EvalContext, FrameLike
from narthex._sdk.expressions.namespaces import Dates
from narthex._sdk.expressions.written_types import types_of
from narthex.compat.errors import FennelError
from narthex.compat.frames import missing
from narthex.compat.time_formats import in_nanoseconds
from narthex.errors import NarthexError
from narthex.expr import EvalContext as Context
from narthex.expr import Expr, TimeUnit, TypedExpr

__all__ = [
    "EvalContext",
    "Expr",
    "InvalidExprException",
    "TimeUnit",
    "TypedExpr",
    "col",
    "datetime",
    "from_epoch",
    "lit",
    "make_struct",
    "now",
    "repeat",
    "var",
    "when",
]

_P = ParamSpec("_P")
_NAMESPACES: Final = frozenset({"num", "str", "dt", "list", "struct", "dict"})
_NULLS: Final[Mapping[str, frozenset[str]]] = {
    "str.parse": frozenset({"null"}),
    "str.strptime": frozenset(),
}
"""For each function that parses text, the texts whose value is null."""


class InvalidExprException(FennelError):
    """An expression that cannot be built, typed or evaluated."""


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (NarthexError, ExpressionTypeError) as error:
        raise InvalidExprException(str(error)) from error


class _Functions:
    """The functions of one kind of value, with Fennel's errors."""

    def __init__(self, functions: object) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        with _told():
            found = getattr(self._functions, name)
        if not callable(found):
            return _adapted(found)

        @wraps(found)
        def function(*args: object, **named: object) -> object:
            with _told():
                return _adapted(found(*args, **named))

        return function


class _Instants(_Functions):
    """The functions of instants."""

    def strftime(self, format: str, **zone: str | None) -> object:
        """Format the instant; `%f` writes nanoseconds."""
        return self.__getattr__("strftime")(in_nanoseconds(format), **zone)


def _adapted(found: object) -> object:
    """Return an expression as it is, and functions, as those of another time zone, with errors."""
    if isinstance(found, Expr):
        return found
    return _Instants(found) if isinstance(found, Dates) else _Functions(found)


class FennelExpr(Expr):
    """An expression with Fennel's errors, whose series have Fennel's dtypes."""

    __slots__ = ()

    @override
    def _made(self, node: Node, classes: frozenset[type]) -> "FennelExpr":
        return FennelExpr(node, classes)

    @override
    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return _adapted(found) if name in _NAMESPACES else found

    @override
    def call(self, function: str, *operands: Operand, **options: Any) -> Expr:
        with _told():
            return super().call(function, *operands, **options)

    @override
    def typeof(self, schema: Mapping[str, Annotation] | None = None) -> Annotation:
        with _told():
            return super().typeof(schema)

    @override
    def matches_type(
        self, dtype: Annotation, schema: Mapping[str, Annotation] | None = None
    ) -> bool:
        with _told():
            return super().matches_type(dtype, schema)

    @override
    def eval(
        self,
        input_df: FrameLike,
        schema: Mapping[str, Annotation],
        output_dtype: Annotation | None = None,
        parse: bool = True,
        context: Context | None = None,
    ) -> pd.Series:
        with _told():
            evaluated: Any = super().eval(input_df, schema, output_dtype, parse, context)
            of = infer(self.node, types_of(schema))
        found: pd.Series = evaluated
        values = [missing(value) for value in found.tolist()]
        if isinstance(of, Null) or (_has_null(values) and not isinstance(of, Optional | Float)):
            raise InvalidExprException(
                f"failed to evaluate expression: {self} is not optional, and is null for some rows"
            )
        self._require_parsed(values, input_df, schema)
        if not parse:
            return found
        if isinstance(found.dtype, pd.DatetimeTZDtype):
            made: pd.Series = found.astype("datetime64[ns, UTC]")
            return made
        dtype = "object" if _has_null(values) else None
        return pd.Series(values, index=found.index, dtype=dtype)

    def _require_parsed(
        self, values: Sequence[object], frame: FrameLike, schema: Mapping[str, Annotation]
    ) -> None:
        """Check that no text was parsed to null, unless it is null or the `null` of JSON.

        Raises:
            InvalidExprException: One was.
        """
        if not isinstance(self.node, Call) or self.node.function not in _NULLS:
            return
        nulls = _NULLS[self.node.function]
        given = FennelExpr(self.node.arguments[0], self.classes).eval(frame, schema)
        for text, value in zip(given, values, strict=True):
            if value is pd.NA and text is not pd.NA and text not in nulls:
                raise InvalidExprException(
                    f"failed to evaluate expression: {self}: {text!r} is not such a value"
                )


def _has_null(values: Sequence[object]) -> bool:
    return any(value is pd.NA or value is pd.NaT for value in values)


class FennelThen(FennelExpr):
    """The branches of a `when` so far."""

    __slots__ = ("_then",)

    def __init__(self, then: Then) -> None:
        super().__init__(then.node, then.classes)
        self._then = then

    def when(self, condition: Operand) -> "FennelWhen":
        """Add a branch that applies if no former condition is true."""
        return FennelWhen(condition, self._then)

    def otherwise(self, value: Operand) -> Expr:
        """Set the value if no condition is true."""
        with _told():
            made = self._then.otherwise(value)
        return FennelExpr(made.node, made.classes)


class FennelWhen:
    """`when(condition)`, before its `then`."""

    def __init__(self, condition: Operand, before: Then | None = None) -> None:
        with _told():
            self._when = When(condition, before)

    def then(self, value: Operand) -> FennelThen:
        """Set the value if the condition is true."""
        with _told():
            return FennelThen(self._when.then(value))

    def __getattr__(self, name: str) -> Any:
        with _told():
            return getattr(self._when, name)


def when(expr: Operand) -> FennelWhen:
    """The value of `then` if the condition is true."""
    return FennelWhen(expr)


def _told_by(make: Callable[_P, Expr]) -> Callable[_P, FennelExpr]:
    @wraps(make)
    def made(*args: _P.args, **named: _P.kwargs) -> FennelExpr:
        with _told():
            found = make(*args, **named)
        return FennelExpr(found.node, found.classes)

    return made


col = _told_by(expr.col)
datetime = _told_by(expr.datetime)
from_epoch = _told_by(expr.from_epoch)
lit = _told_by(expr.lit)
make_struct = _told_by(expr.make_struct)
now = _told_by(expr.now)
repeat = _told_by(expr.repeat)
var = _told_by(expr.var)
