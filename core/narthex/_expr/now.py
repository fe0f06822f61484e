"""`now()` in a pipeline: it is the row's event time, so a replay computes the same values."""

from typing import assert_never

import attrs

from narthex._ir.expression_nodes import Branch, Call, Case, Literal, Node, Ref, Var


def at_event_time(node: Node, event_time: str) -> Node:
    """Return an expression with each `now()` replaced by the row's event time.

    Args:
        node: The expression.
        event_time: The name of the event-time column.
    """
    match node:
        case Ref() | Var() | Literal():
            return node
        case Call(function="now"):
            return Ref(event_time)
        case Call():
            arguments = tuple(at_event_time(one, event_time) for one in node.arguments)
            return attrs.evolve(node, arguments=arguments)
        case Case():
            branches = tuple(
                Branch(
                    condition=at_event_time(one.condition, event_time),
                    value=at_event_time(one.value, event_time),
                )
                for one in node.branches
            )
            return Case(branches=branches, otherwise=at_event_time(node.otherwise, event_time))
        case _:
            assert_never(node)
