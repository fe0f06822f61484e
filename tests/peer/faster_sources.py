# mypy: ignore-errors
"""Runs a script of the peer's client with an `inspect` that remembers what it has found.

    python -P faster_sources.py SCRIPT ARGUMENTS

The client asks for the source of each class and function several times, and each time `inspect`
parses the whole file: that is most of the time that it takes. The files do not change meanwhile.
"""

import ast
import functools
import inspect
import runpy
import sys
from typing import Any


def remember() -> None:
    """Parse each text once, find each class once, and read no lines of code for stacks."""
    parse = ast.parse
    parsed = functools.cache(parse)

    def parse_once(*args: Any, **options: Any) -> Any:
        # The client changes trees: only those of `inspect` can be shared.
        caller = sys._getframe(1).f_globals  # noqa: SLF001
        return (parsed if caller is vars(inspect) else parse)(*args, **options)

    find, file_of = inspect.findsource, inspect.getsourcefile
    of_class = functools.cache(find)
    files: dict[str, str | None] = {}

    def file_of_frame(one: Any) -> str | None:
        if not inspect.isframe(one):
            return file_of(one)
        name = one.f_code.co_filename
        if name not in files:
            files[name] = file_of(one)
        return files[name]

    ast.parse = parse_once
    inspect.findsource = lambda one: of_class(one) if type(one) is type else find(one)
    inspect.getsourcefile = file_of_frame
    inspect.stack = lambda _=0: inspect.getouterframes(sys._getframe(1), 0)  # noqa: SLF001


if __name__ == "__main__":
    remember()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
