"""The names of suites: one for each dataset and featureset of a branch."""

import hashlib
import re
from typing import Final

_ESCAPED: Final = re.compile(r"[^A-Za-z0-9_@-]")
_LONGEST: Final = 160
"""The longest name; a file name of 255 bytes has room for the suffixes that are added."""

_KEPT: Final = 120


def suite_name(branch: str, entity: str) -> str:
    """Return the name of the suite of a dataset or featureset: `main:Orders@1`.

    It is the name of files and a part of addresses, so every character but letters, digits, `_`,
    `-` and `@` is written as its bytes in hexadecimal, each after `~`. Great Expectations would
    make directories of the parts of a name with dots. Different entities have different names.

    Args:
        branch: The branch, with any characters.
        entity: The name of a featureset, or that of a dataset with its version.
    """
    name = f"{_escaped(branch)}:{_escaped(entity)}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_KEPT]}~~{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode(errors="replace")), text
    )
