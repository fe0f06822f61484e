"""The definition of a function of expressions."""

import enum

import attrs

from narthex._expr.type_rules import Rule, Wrong
from narthex._ir.expression_nodes import Call
from narthex._ir.types import DataType, Null, Optional, base_type, inner, optional

TOO_BIG = "an int result needs more than 64 bits, or a decimal one more than 28 digits"
NOT_A_NUMBER = "the result is NaN"


class Nulls(enum.Enum):
    """The effect of a null argument.

    PROPAGATE: any null argument makes the result null.
    KLEENE: null is unknown: `false & null` is false, `true | null` is true, else null.
    OWN: the function has a rule of its own.
    """

    PROPAGATE = "propagate"
    KLEENE = "kleene"
    OWN = "own"


@attrs.frozen(kw_only=True)
class Function:
    """One function.

    Attributes:
        arguments: The least and the greatest number of arguments; None is unbounded.
        rule: Computes the result's type from the argument types.
        form: How an author writes it, with the names of its arguments.
        promise: Its result, in one sentence.
        example: An expression over the columns of `narthex._expr.functions.EXAMPLE`.
        types: The argument and result types, where trying the rule on plain types does not show
            them.
        undefined: When its value is undefined, and therefore null; empty is never.
        options: Names of constants that a call has beside its arguments.
        symbol: How an author writes it, for binary operators.
        binds: Whether its second argument is evaluated for each item of the first, with the
            variable of its option `var` bound to the item.
    """

    name: str
    arguments: tuple[int, int | None]
    rule: Rule
    form: str
    promise: str
    example: str
    types: str = ""
    nulls: Nulls = Nulls.PROPAGATE
    undefined: str = ""
    options: tuple[str, ...] = ()
    symbol: str = ""
    binds: bool = False

    def result(self, call: Call, arguments: tuple[DataType, ...]) -> DataType | Wrong:
        """Return the type of a call whose arguments have these types."""
        least, greatest = self.arguments
        if len(arguments) < least or (greatest is not None and len(arguments) > greatest):
            return Wrong(f"`{self.name}` has {len(arguments)} arguments")
        plain = tuple(base_type(argument) for argument in arguments)
        if self.nulls is Nulls.OWN:
            return self.rule(call, plain)
        result = self.rule(call, tuple(inner(argument) for argument in plain))
        if isinstance(result, Wrong):
            return result
        nullable = any(isinstance(argument, Optional | Null) for argument in plain)
        return optional(result) if nullable else result
