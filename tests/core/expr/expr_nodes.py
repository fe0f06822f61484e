"""Walking the parts of an expression."""

from collections.abc import Iterator

from narthex._ir.expression_nodes import Call, Case, Node


def parts_of(node: Node) -> Iterator[Node]:
    """Yield an expression and everything in it."""
    yield node
    match node:
        case Call(arguments=arguments):
            below = list(arguments)
        case Case(branches=branches, otherwise=otherwise):
            below = [part for one in branches for part in (one.condition, one.value)]
            below.append(otherwise)
        case _:
            below = []
    for part in below:
        yield from parts_of(part)
