"""The list of deliberate faults: `faults.toml`."""

import tomllib
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("faults.toml")


class MisplacedFaultError(LookupError):
    """The source has not, or not once, what a fault replaces: the fault must be written anew."""


@attrs.frozen(kw_only=True)
class Fault:
    """A fault, which is one edit of the product.

    Attributes:
        name: What the product does wrong with the fault, as a sentence.
        kind: What the promise is about: `semantics`, `reliability` or `security`.
        page: The page of the documentation with the promise that the fault breaks.
        promise: Words of that page.
        file: The file of the fault.
        was: The text that the fault replaces; it occurs once in the file.
        now: The text that replaces it.
        found_by: The tests of which at least one must fail, as arguments of pytest.
    """

    name: str
    kind: str
    page: str
    promise: str
    file: str
    was: str
    now: str
    found_by: tuple[str, ...]

    def put_into(self, text: str) -> str:
        """Return the text of the file with the fault.

        Raises:
            MisplacedFaultError: The text does not have exactly one place for it.
        """
        if text.count(self.was) != 1:
            raise MisplacedFaultError(f"`{self.was}` occurs {text.count(self.was)} times")
        return text.replace(self.was, self.now)


def all_faults() -> tuple[Fault, ...]:
    """Return the faults of the list, in its order."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["faults"]
    return tuple(Fault(**{**one, "found_by": tuple(one["found_by"])}) for one in listed)
