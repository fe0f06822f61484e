"""What a function of expressions is."""

import enum

import attrs

from narthex._expr.type_rules import Rule, Wrong
from narthex._ir.expression_nodes import Call
from narthex._ir.types import DataType, Null, Optional, base_type, inner, optional

TOO_BIG = "an int result needs more than 64 bits, or a decimal one more than 28 digits"
NOT_A_NUMBER = "the result is NaN"


class Nulls(enum.Enum):
    """What a null argument does.

    PROPAGATE: any null argument makes the result null.
    KLEENE: null is unknown: `false & null` is false, `true | null` is true, else null.
    OWN: the function says so itself.
    """

    PROPAGATE = "propagate"
    KLEENE = "kleene"
    OWN = "own"


@attrs.frozen(kw_only=True)
class Function:
    """One function.

    Attributes:
        arguments: The least and the greatest number of them; None is any number.
        rule: From argument types to the result's.
        form: How an author writes it, with the names of what it takes.
        promise: What it gives, in one sentence.
        example: An expression over the columns of `narthex._expr.functions.EXAMPLE`.
        types: From which types to which, where trying the rule on plain types does not show it.
        undefined: When it has no value, and so gives null; empty is never.
        options: Names of constants that a call carries beside its arguments.
        symbol: How an author writes it, for binary operators.
        binds: Its second argument is evaluated for each item of the first, which the variable
            of its option `var` stands for there.
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
