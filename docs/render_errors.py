# ruff: noqa: INP001
"""Writes `docs/errors.md` from the error classes: `python -m docs.render_errors`.

Each class with a code is a section with its docstring. A test compares the page with the code.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from narthex.errors import NarthexError, catalogue
from narthex_ledger import LedgerError

PAGE = Path(__file__).with_name("errors.md")
FIRST_OF_A_ROOT = {
    "NX000": "Definitions and clients",
    "NX1100": "The ledger",
}
INTRODUCTION = """# Errors

Every error has a code. A report contains the mistake, the author's file and line, and one remedy:

```
[NX202] column `amuont` is not in the input; it has `amount`, `user_id`
  --> features/fraud.py:12

hint: did you mean `amount`?
```

All mistakes of a file or a commit are reported together. A refused commit changes nothing.

`python -m docs.render_errors` writes this page from the docstrings of the error classes.
"""


def ledger_catalogue() -> dict[str, type[LedgerError]]:
    """Return all error classes of the ledger that define a code, by code."""
    found = {LedgerError.code: LedgerError}
    pending = list(LedgerError.__subclasses__())
    while pending:
        cls = pending.pop()
        if "code" in vars(cls):
            found[cls.code] = cls
        pending += cls.__subclasses__()
    return found


def render() -> str:
    """Render the page, in order of code."""
    classes: dict[str, type[NarthexError | LedgerError]] = {**catalogue(), **ledger_catalogue()}
    parts = [INTRODUCTION]
    for code, cls in sorted(classes.items(), key=lambda item: int(item[0].removeprefix("NX"))):
        if code in FIRST_OF_A_ROOT:
            parts.append(f"## {FIRST_OF_A_ROOT[code]}\n")
        parts.append(f"### {code} {cls.__name__}\n")
        parts.append("\n\n".join(_paragraphs(cls)) + "\n")
    return "\n".join(parts)


def _paragraphs(cls: type[Exception]) -> Iterator[str]:
    """Yield the docstring's paragraphs, each on one line, without those about attributes."""
    text = inspect.cleandoc(cls.__doc__ or "")
    for paragraph in text.split("\n\n"):
        if not re.match(r"(Attributes|Args|Raises):\n", paragraph):
            yield paragraph.replace("\n", " ").replace(" Instead:", "\n\n**Instead:**")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
