"""The free names of a piece of code."""

import ast
import builtins
import symtable
from typing import Final

from typing_extensions import override

_BUILTINS: Final = frozenset(dir(builtins))


class _WithoutSignatures(ast.NodeTransformer):
    """Drops annotations of signatures and locals, which are never evaluated."""

    @override
    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=node.arg)

    @override
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    @override
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)


def free_names(text: str) -> tuple[str, ...]:
    """Return the free names of a module's text, without builtins, sorted."""
    stripped = ast.unparse(_WithoutSignatures().visit(ast.parse(text)))
    top = symtable.symtable(stripped, "<code>", "exec")
    bound = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    return tuple(sorted(_globals(top) - bound - _BUILTINS))


def _globals(table: symtable.SymbolTable) -> set[str]:
    at_top = table.get_type() == "module"
    found = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (at_top or symbol.is_global())
    }
    for child in table.get_children():
        found |= _globals(child)
    return found
