"""User code: a function and all that it uses, as self-contained text with a stable hash."""

from narthex._sdk.closure.capture import is_literal, resolve, verify, verify_all
from narthex._sdk.closure.libraries import requirements_of
from narthex._sdk.closure.own_class import OwnClass
from narthex._sdk.closure.project_locks import lock_of
from narthex._sdk.closure.rules import Breach, find_breaches
from narthex._sdk.closure.tree import tree_of

__all__ = [
    "Breach",
    "OwnClass",
    "find_breaches",
    "is_literal",
    "lock_of",
    "requirements_of",
    "resolve",
    "tree_of",
    "verify",
    "verify_all",
]
