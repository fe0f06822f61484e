"""Runs the sessions of `docs/examples` with the standard library's doctest."""

import doctest
import re
from collections.abc import Mapping
from typing import Any, Final

from structlog.testing import capture_logs

from docs.reference_examples import Examples, Section

_SERVER: Final = re.compile(r"\b(server|url)\b")


def asks_server(section: Section) -> bool:
    """Whether a section calls a server: `server` is a client of one, `url` its address."""
    return any(_SERVER.search(one.source) for one in section.sessions)


ELSEWHERE: Final[Mapping[str, str]] = {
    "AsyncClient": "test_async_client",
    "AsyncClient.query": "test_async_client",
    "AsyncClient.lookup": "test_async_client",
    "AsyncClient.log": "test_row_inspection",
    "Client.diff": "test_value_diffs",
    "Client.discard_rows": "test_row_inspection",
    "Client.late_rows": "test_row_inspection",
    "Client.quarantined_row": "test_row_inspection",
    "Client.quarantined_rows": "test_row_inspection",
    "Client.replay_rows": "test_row_inspection",
}
"""Examples of `narthex.client` that need a server with certain rows: the module that runs each."""


def run_by(module: str) -> list[str]:
    """Return the examples of `narthex.client` that a test module runs, by its full name."""
    return [name for name, by in ELSEWHERE.items() if by == module.rpartition(".")[2]]


def names_of_head(examples: Examples) -> dict[str, Any]:
    """Return the names that the head of a file defines."""
    names: dict[str, Any] = {}
    told = _told(examples, "head", [examples.head], names)
    assert not told, "".join(told)
    return names


def differences(
    examples: Examples, name: str, given: Mapping[str, object] | None = None
) -> list[str]:
    """Run the head of a file and then one section; return what differs from the shown output.

    Args:
        examples: The file.
        name: The section.
        given: Names that the sessions find defined.
    """
    sections = [examples.head, examples.sections[name]]
    return _told(examples, name, sections, {**(given or {})})


def _told(
    examples: Examples, name: str, sections: list[Section], names: dict[str, Any]
) -> list[str]:
    names["__name__"] = "__main__"
    # One test, as the source of a function is found by the number of its example in the test.
    parts = [one for section in sections for one in section.sessions]
    title = f"{examples.file.stem}.{name}"
    test = doctest.DocTest(parts, names, title, str(examples.file), 0, None)
    test.globs = names
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    # A server in this process would log to the stream whose text is compared.
    with capture_logs():
        runner.run(test, out=told.append, clear_globs=False)
    return told
