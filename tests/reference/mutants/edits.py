"""Bugs on purpose: a snippet of a function is another one, wherever the function is used."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType

import attrs
import pytest

Patch = Callable[[pytest.MonkeyPatch], None]


@attrs.frozen
class Mutant:
    """A bug: what it does, how it is put in, and in the names of which cases it shows first."""

    name: str
    put_in: Patch
    shows: str = ""


class SnippetMissingError(LookupError):
    """The function has not, or not once, what the bug replaces: the bug must be written anew."""


def edited(function: object, old: str, new: str) -> Patch:
    """Replace a snippet, which must occur once, of a function or of a method."""

    def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(function, FunctionType)
        found = textwrap.dedent(inspect.getsource(function))
        if found.count(old) != 1:
            raise SnippetMissingError(f"`{old}` occurs {found.count(old)} times in {function}")
        owner, _, name = function.__qualname__.rpartition(".")
        module = sys.modules[function.__module__]
        made: dict[str, object] = {}
        exec(found.replace(old, new), vars(module), made)  # noqa: S102 (our own text)
        if owner:
            monkeypatch.setattr(getattr(module, owner), name, made[name])
            return
        for user in list(sys.modules.values()):
            if vars(user).get(name) is function:
                monkeypatch.setattr(user, name, made[name])

    return put_in
