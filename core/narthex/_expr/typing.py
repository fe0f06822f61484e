"""The type of an expression over columns, and all its type errors."""

import difflib
from collections.abc import Mapping
from typing import assert_never

import attrs
from typing_extensions import override

from narthex._expr.functions import FUNCTIONS
from narthex._expr.render import render
from narthex._expr.type_lattice import lca, promotable
from narthex._expr.type_rules import Wrong
from narthex._ir.expression_nodes import Call, Case, Literal, Node, Ref, Var, bound_name
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Bool,
    DataType,
    base_type,
    inner,
    item_type,
)

_BOUND = bound_name("")


@attrs.frozen(kw_only=True)
class ExpressionProblem:
    """One type error of an expression.

    Attributes:
        message: The actual type or value, and the expected one.
        expression: The sub-expression with the error, rendered.
        hint: One remedy; may be empty.
    """

    message: str
    expression: str
    hint: str = ""

    @override
    def __str__(self) -> str:
        hint = f"; hint: {self.hint}" if self.hint else ""
        return f"{self.message}, in {self.expression}{hint}"


class ExpressionTypeError(Exception):
    """An expression has no type; carries all its type errors, from left to right."""

    def __init__(self, problems: tuple[ExpressionProblem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def infer(node: Node, schema: Mapping[str, DataType]) -> DataType:
    """Return the type of an expression over columns of these types.

    Restrictions (between, oneof, regex) of columns are not part of the type.

    Raises:
        ExpressionTypeError: It has no type; all reasons together.
    """
    inference = _Inference(schema)
    found = inference.type_of(node)
    if inference.problems or found is None:
        raise ExpressionTypeError(tuple(inference.problems))
    return found


def check(node: Node, schema: Mapping[str, DataType]) -> tuple[ExpressionProblem, ...]:
    """Return every type error of an expression; empty when the expression has a type."""
    inference = _Inference(schema)
    inference.type_of(node)
    return tuple(inference.problems)


def fit(node: Node, schema: Mapping[str, DataType], *, target: DataType) -> Node:
    """Return the expression with exactly the wanted type, by a cast if one is needed.

    Raises:
        ExpressionTypeError: It has no type, or its type is not promotable to the target.
    """
    found, wanted = infer(node, schema), base_type(target)
    if not promotable(found, wanted):
        message = f"expected to be `{type_name(target)}`, found `{type_name(found)}`"
        raise ExpressionTypeError((ExpressionProblem(message=message, expression=render(node)),))
    return node if found == wanted else Call("cast", (node,), target=wanted)


def references(node: Node) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    match node:
        case Ref(name=name):
            return frozenset({name})
        case Var() | Literal():
            return frozenset()
        case Call(arguments=arguments):
            return frozenset().union(*(references(argument) for argument in arguments))
        case Case(branches=branches, otherwise=otherwise):
            parts = [part for branch in branches for part in (branch.condition, branch.value)]
            return frozenset().union(*(references(part) for part in (*parts, otherwise)))
        case _:
            assert_never(node)


def is_total(node: Node) -> bool:
    """Return whether it has a value on every row without nulls (see `Function.undefined`)."""
    match node:
        case Ref() | Var() | Literal():
            return True
        case Call(function=name, arguments=arguments):
            function = FUNCTIONS.get(name)
            defined = function is not None and not function.undefined
            return defined and all(is_total(argument) for argument in arguments)
        case Case(branches=branches, otherwise=otherwise):
            parts = [part for branch in branches for part in (branch.condition, branch.value)]
            return all(is_total(part) for part in (*parts, otherwise))
        case _:
            assert_never(node)


class _Inference:
    """The type inference of one expression; each part without a type is reported once."""

    def __init__(self, schema: Mapping[str, DataType]) -> None:
        self.schema = schema
        self.problems: list[ExpressionProblem] = []

    def type_of(self, node: Node) -> DataType | None:
        match node:
            case Ref(name=name):
                return self._column(name, node)
            case Var(name=name):
                return self._variable(name, node)
            case Literal(type=of):
                return base_type(of)
            case Call():
                return self._call(node)
            case Case():
                return self._case(node)
            case _:
                assert_never(node)

    def _wrong(self, node: Node, message: str, hint: str = "") -> None:
        problem = ExpressionProblem(message=message, expression=render(node), hint=hint)
        self.problems.append(problem)

    def _column(self, name: str, node: Node) -> DataType | None:
        if name in self.schema:
            return base_type(self.schema[name])
        columns = [known for known in self.schema if not known.startswith(_BOUND)]
        near = difflib.get_close_matches(name, columns, n=1)
        names = ", ".join(f"`{known}`" for known in columns)
        hint = f"did you mean `{near[0]}`?" if near else f"the columns are {names}"
        self._wrong(node, f"column `{name}` not found", hint)
        return None

    def _variable(self, name: str, node: Node) -> DataType | None:
        if bound_name(name) in self.schema:
            return base_type(self.schema[bound_name(name)])
        known = [of.removeprefix(_BOUND) for of in self.schema if of.startswith(_BOUND)]
        hint = (
            f"the variable here is `{known[0]}`"
            if known
            else f'use it inside `.list.map("{name}", …)` or `.list.filter("{name}", …)`'
        )
        self._wrong(node, f"variable `{name}` is not bound", hint)
        return None

    def _body(self, call: Call, over: DataType | None) -> DataType | None:
        """Return the type of a function's second argument, for items of its first."""
        if any(name.startswith(_BOUND) for name in self.schema):
            self._wrong(
                call,
                f"`{call.function}` is inside another function with a variable",
                "make the inner list a column of its own first",
            )
            return None
        item = None if over is None else item_type(inner(over))
        if item is None:
            return None if over is None else over
        variable = str(dict(call.options).get("var"))
        inside = _Inference({**self.schema, bound_name(variable): item})
        found = inside.type_of(call.arguments[1])
        self.problems += inside.problems
        return found

    def _arguments(self, call: Call) -> list[DataType | None]:
        function = FUNCTIONS.get(call.function)
        if function is not None and function.binds and len(call.arguments) == 2:  # noqa: PLR2004
            over = self.type_of(call.arguments[0])
            return [over, self._body(call, over)]
        return [self.type_of(argument) for argument in call.arguments]

    def _call(self, call: Call) -> DataType | None:
        found = self._arguments(call)
        known = [of for of in found if of is not None]
        function = FUNCTIONS.get(call.function)
        if function is None:
            self._wrong(call, f"no function is named `{call.function}`")
            return None
        if len(known) < len(found):
            return None
        result = function.result(call, tuple(known))
        if isinstance(result, Wrong):
            self._wrong(call, result.message, result.hint)
            return None
        return result

    def _case(self, case: Case) -> DataType | None:
        values: list[DataType | None] = []
        for branch in case.branches:
            condition = self.type_of(branch.condition)
            if condition is not None and inner(condition) != Bool():
                message = f"a condition is `bool`, found `{type_name(condition)}`"
                self._wrong(branch.condition, message)
            values.append(self.type_of(branch.value))
        values.append(self.type_of(case.otherwise))
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        return self._common(case, known)

    def _common(self, case: Case, values: list[DataType]) -> DataType | None:
        common = values[0]
        for value in values[1:]:
            together = lca(common, value)
            if together is None:
                message = f"branches are `{type_name(common)}` and `{type_name(value)}`"
                self._wrong(case, message, "all branches of a `when` give values of one type")
                return None
            common = together
        return common
