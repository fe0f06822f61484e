"""Runs the sessions of `docs/examples` with the standard library's doctest."""

import doctest
import re
from collections.abc import Mapping
from typing import Final

from docs.reference_examples import Examples, Section

_SERVER: Final = re.compile(r"\bserver\b")


def asks_server(section: Section) -> bool:
    """Whether a section calls a server: `server` is a client of one."""
    sessions = doctest.DocTestParser().get_examples(section.text)
    return any(_SERVER.search(one.source) for one in sessions)


def differences(
    examples: Examples, name: str, given: Mapping[str, object] | None = None
) -> list[str]:
    """Run the head of a file and then one section; return what differs from the shown output.

    Args:
        examples: The file.
        name: The section.
        given: Names that the sessions find defined.
    """
    names = {"__name__": "__main__", **(given or {})}
    parser = doctest.DocTestParser()
    file, title = str(examples.file), f"{examples.file.stem}.{name}"
    # One test, as the source of a function is found by the number of its example in the test.
    parts = [
        one
        for section in (examples.head, examples.sections[name])
        for one in parser.get_examples("\n" * section.line + section.text, title)
    ]
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTest(parts, names, title, file, 0, None), out=told.append)
    return told
