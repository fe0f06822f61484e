"""Errors as Fennel's users expect them: built-in classes, and Fennel's messages where known."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import attrs

from narthex._analysis.tolerance import tolerant
from narthex.errors import DefinitionErrors, NarthexError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")


class FennelError(ValueError, TypeError, AttributeError):
    """An error that Fennel raised as one of the built-in classes above or as Exception; it is each.

    Narthex's own error, with its code, place and hint, is its `__cause__`.
    """


@attrs.frozen(kw_only=True)
class _Text:
    """Fennel's message for one of our errors.

    Attributes:
        code: The code of our error.
        ours: A pattern that matches our message from its beginning.
        theirs: Fennel's message; groups of the pattern are in braces, `names` as a list.
        during: The call that raised it, where Fennel's message depends on that.
        of: The class that Fennel raised.
    """

    code: str
    ours: str
    theirs: str
    during: str = ""
    of: type[Exception] = FennelError

    def said(self, error: NarthexError, during: str) -> str | None:
        """Return Fennel's message for an error; None if this text does not apply."""
        if error.code != self.code or self.during not in {"", during}:
            return None
        found = re.match(self.ours, error.message)
        if found is None:
            return None
        listed = {
            name: [one.strip("`") for one in text.split(", ")] if name == "names" else text
            for name, text in found.groupdict().items()
        }
        return self.theirs.format(**listed)


_NEEDED = "Please ensure that all featuresets are present in the sync call."

_IN_PIPELINE: Final = "Error while executing pipeline `{name}` in dataset `{of}`: "

_TEXTS: Final = (
    _Text(
        code="NX113",
        ours=r"field `.*` is marked deleted or deprecated",
        theirs="Dataset currently does not support deleted or deprecated fields.",
    ),
    _Text(
        code="NX801",
        ours=r"dataset `(?P<needed>\w+)` feeds `(?P<by>[\w.]+)` but is not in the commit",
        theirs="Dataset `{needed}` is an input to the pipelines: `['{by}']` but is not synced. "
        "Please add it to the sync call.",
    ),
    _Text(
        code="NX801",
        ours=r"`(?P<by>\w+)\.\w+` needs `.*`, but featureset `(?P<needed>\w+)` is not in",
        theirs="Featureset `{needed}` is required by `{by}` but is not present in the sync call. "
        + _NEEDED,
    ),
    _Text(
        code="NX801",
        ours=r".* looks up (?:dataset )?`(?P<needed>\w+)`, which is not in the commit",
        theirs="Dataset `{needed}` not found in sync call",
    ),
    _Text(
        code="NX809",
        ours=r"extractor `(?P<of>\w+)\.(?P<name>\w+)` looks up `(?P<needed>\w+)`, which is",
        theirs="Extractor `{name}` in `{of}` failed to run with error: "
        "name '{needed}' is not defined. ",
    ),
    _Text(
        code="NX971",
        ours=r"extractor `(?P<of>\w+)\.(?P<name>\w+)` failed: .* looks up `(?P<needed>\w+)`",
        theirs="Extractor `{name}` in `{of}` failed to run with error: "
        "name '{needed}' is not defined. ",
    ),
    _Text(
        code="NX971",
        ours=r"`filter` of `(?P<of>\w+)\.(?P<name>\w+)` (?:failed|gave a wrong answer): "
        r"(?P<why>.*)",
        theirs=_IN_PIPELINE + "Error in filter function for pipeline `{of}.{name}`, {why}",
    ),
    _Text(
        code="NX971",
        ours=r"`assign` of `(?P<column>\w+)` in `(?P<of>\w+)\.(?P<name>\w+)` "
        r"(?:failed|gave a wrong answer): (?P<why>.*)",
        theirs=_IN_PIPELINE
        + "Error in assign node for column `{column}` for pipeline `{of}.{name}`, {why}",
    ),
    _Text(
        code="NX971",
        ours=r"`transform` of `(?P<of>\w+)\.(?P<name>\w+)` (?:failed|gave a wrong answer): "
        r"(?P<why>.*)",
        theirs=_IN_PIPELINE + "Error in transform function for pipeline `{of}.{name}`, {why}",
    ),
    _Text(
        code="NX952",
        ours=r"there is no secret `(?P<name>.*)`",
        theirs="Secret : `{name}` does not exist.",
        of=KeyError,
    ),
    _Text(
        code="NX807",
        ours=r"dataset `(?P<name>\w+)` ",
        theirs="Please update version of dataset: `{name}`",
    ),
    _Text(
        code="NX601",
        ours=r"feature `(?P<name>\w+)\.\w+` is deployed but missing",
        theirs="Featureset {name} is not a superset of the existing featureset",
    ),
    _Text(
        code="NX952",
        ours=r"branch `(?P<name>.+)` already exists",
        theirs="Branch name: `{name}` already exists",
        during="init_branch",
    ),
    _Text(
        code="NX952",
        ours=r"branch `(?P<name>.+)` already exists",
        theirs="Branch `{name}` already exists",
    ),
    _Text(
        code="NX952",
        ours=r"branch `(?P<name>.+)` does not exist$",
        theirs="Branch name: {name} does not exist",
        during="delete_branch",
    ),
    _Text(
        code="NX952",
        ours=r"branch `(?P<name>.+)` does not exist$",
        theirs="Branch `{name}` does not exist",
        during="clone_branch",
    ),
    _Text(
        code="NX952",
        ours=r"the branch `main` cannot be deleted",
        theirs="Cannot delete the main branch.",
    ),
    _Text(
        code="NX801",
        ours=r"dataset `(?P<name>.+)` is not known",
        theirs="Dataset: {name} not found",
        during="lookup",
        of=KeyError,
    ),
    _Text(
        code="NX801",
        ours=r"dataset `(?P<name>.+)` is not known",
        theirs="Dataset `{name}` not found",
    ),
    _Text(
        code="NX952",
        ours=r"branch `(?P<name>.+)` does not exist; there is (?P<names>.*)",
        theirs="Branch: `{name}` not found, please sync this branch and try again. "
        "Available branches: {names}",
        of=KeyError,
    ),
    _Text(
        code="NX204",
        ours=r"column `(?P<name>\w+)` is (?:a key|the event time) of `(?P<of>\w+)`, which "
        r"`(?P<step>\w+)` cannot change; the values are (?P<names>.*)",
        theirs="Field `{name}` is a key or timestamp field in schema of {step} node input "
        "'[Dataset:{of}]'. Value fields are: {names}",
    ),
    _Text(
        code="NX955",
        ours=r"the frame has no column `(?P<name>.+)`; it has (?P<names>.*)",
        theirs="Input dataframe does not contain all the required features. "
        "Required features: ['{name}']. Input dataframe columns: {names}",
    ),
)
"""If there are several errors, the first match in this order is the one that Fennel reported."""


def in_fennels_words(errors: Sequence[NarthexError], *, during: str = "") -> Exception | None:
    """Return the exception that Fennel raised for these errors; None if it is not known."""
    for text in _TEXTS:
        for error in errors:
            said = text.said(error, during)
            if said is not None:
                return text.of(said)
    return None


@contextmanager
def as_fennel_tells(during: str = "") -> Iterator[None]:
    """Raise Narthex's errors as Fennel's, and allow all that Fennel allowed.

    Raises:
        FennelError: An error occurred; without a known Fennel message, it has ours.
    """
    try:
        with tolerant():
            yield
    except DefinitionErrors as errors:
        known = in_fennels_words(errors.exceptions_flat(), during=during)
        raise known or FennelError(str(errors)) from errors
    except NarthexError as error:
        raise in_fennels_words([error], during=during) or FennelError(str(error)) from error


def told_above(decorator: Callable[_P, Callable[[_A], _B]]) -> Callable[_P, Callable[[_A], _B]]:
    """Make a decorator with arguments raise its errors as Fennel's."""

    @wraps(decorator)
    def place(*args: _P.args, **given: _P.kwargs) -> Callable[[_A], _B]:
        return told(told(decorator)(*args, **given))

    return place


def told(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function raise its errors as Fennel's."""

    @wraps(function)
    def call(*args: _P.args, **given: _P.kwargs) -> _T:
        with as_fennel_tells(getattr(function, "__name__", "")):
            return function(*args, **given)

    return call
