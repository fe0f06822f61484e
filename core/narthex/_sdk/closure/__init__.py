"""User code: a function and all that it uses, as self-contained text in one form."""

from narthex._sdk.closure.capture import is_literal, received, resolve, verify
from narthex._sdk.closure.libraries import requirements_of
from narthex._sdk.closure.own_class import OwnClass
from narthex._sdk.closure.project_locks import lock_of
from narthex._sdk.closure.rules import Breach, find_breaches

__all__ = [
    "Breach",
    "OwnClass",
    "find_breaches",
    "is_literal",
    "lock_of",
    "received",
    "requirements_of",
    "resolve",
    "verify",
]
