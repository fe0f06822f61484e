"""User code: what a function reaches, as text that travels and a hash that stays."""

from narthex.closure.carry import is_literal, resolve, verify, verify_all
from narthex.closure.libraries import requirements_of
from narthex.closure.own_class import OwnClass
from narthex.closure.rules import Breach, find_breaches
from narthex.closure.tree import tree_of

__all__ = [
    "Breach",
    "OwnClass",
    "find_breaches",
    "is_literal",
    "requirements_of",
    "resolve",
    "tree_of",
    "verify",
    "verify_all",
]
