"""The blocks of guides, tutorials and the README, and how each of them is run.

The first words after a fence are the mark of a block: its language, and for tests how it is run.

| mark | run by |
|---|---|
| `python` | `tests/house/test_docs.py`, as a whole file that an author could commit |
| `py` | `tests/house/test_docs.py`, in their order, as one file per page |
| `py platform` | acceptance tests |
| `py fragment` | nothing; `tests/guides/test_fragments.py` looks for what it imports |
| `sh run` | `tests/server/test_guide.py`, against a served installation in the test's process |
| `sh platform` | acceptance tests, against a whole platform |
| `sh down` | `tests/acceptance/test_z_down.py`, which ends that platform |
| `sh backup` | `tests/stack/operator/test_backups.py`, against PostgreSQL and Kafka |
| `sh wheels` | `tests/wheels`, in environments that wheels are installed into |
| `sh demo` | `tests/stack/test_demos.py`, in this checkout, with a home of its own |
| `sh ci` | `.ci/run`, on a fresh clone; `tests/guides/test_ci.py` looks for each command there |
| `sh alone` | `tests/guides/test_alone.py`, in a directory, without a server |
| `sh rows` | `tests/server/data`, against servers with rows and logged answers |
| `sh traces` | `tests/server/tracing`, with a collector |
| `sh sso` | `tests/server/sso/test_login_command.py`, with a provider that people sign in at |
| `sh prometheus` | `tests/server/operations/test_monitoring.py`, if Prometheus is installed |
| `sh pip` | `tests/guides/test_alone.py`, in an environment of its own |
| `sh airflow` | `tests/plugins/test_commands_of_airflow.py`, by the command line of Airflow |
| `sh kubernetes` | `tests/stack/test_helm_installed.py`, after `make kubernetes` |
| `pycon` | doctest, from `docs/examples` |
| `text output` | its block of commands or of code prints it |
| `csv NAME`, `json NAME` | a file beside the code |
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
PAGES: Final = (README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))

_BLOCK: Final = re.compile(r"^``` *([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING: Final = re.compile(
    r"\b[0-9a-f]{8,}(-[0-9a-f]{4,12})*\b|\b\d+(\.\d+)? m?s\b|127\.0\.0\.1:\d+|\b[0-9T:.-]{20,}Z"
)
"""Ids, durations, ports and instants, which differ each time."""

_ASSIGNED: Final = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)", re.DOTALL)
_EARLIER: Final = "  …"
"""The first line of an output that shows only the end of what is printed."""


@attrs.frozen
class Block:
    """One block of a page."""

    page: Path
    line: int
    """The number of the line of its fence."""

    mark: str
    text: str

    @property
    def place(self) -> str:
        return f"{place(self.page)}:{self.line}"


def place(page: Path) -> str:
    """Return the path of a page from the root of the checkout."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *marks: str) -> list[Block]:
    """Return the blocks of a page in their order: all, or those with one of the marks."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2])
        for found in _BLOCK.finditer(text)
        if not marks or found[1].strip() in marks
    ]


def pages_with(mark: str) -> list[Path]:
    """Return the pages that have a block with this mark."""
    return [page for page in PAGES if blocks(page, mark)]


def only_block(mark: str) -> Block:
    """Return the block with a mark that one block of all pages has."""
    (found,) = (block for page in PAGES for block in blocks(page, mark))
    return found


def sessions(page: Path, mark: str) -> list[tuple[Block, str | None]]:
    """Return the blocks of commands with a mark, each with the output that the page shows."""
    return [
        (block, after.text if after and after.mark == "text output" else None)
        for block, after in itertools.pairwise([*blocks(page), None])
        if block and block.mark == mark
    ]


def file_of(page: Path, name: str) -> str:
    """Return the text of the file that a page shows under a name."""
    (found,) = (block.text for block in blocks(page) if block.mark.partition(" ")[2] == name)
    return found


def steady(text: str) -> list[str]:
    """Return lines without what differs each time."""
    return [_CHANGING.sub("…", line.rstrip()) for line in text.splitlines()]


def shows(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed, or its end after a line with `…`."""
    wanted, found = steady(shown), steady(printed)
    if shown.startswith(f"{_EARLIER}\n"):
        return found[-len(wanted) + 1 :] == wanted[1:]
    return found == wanted


@attrs.frozen(kw_only=True)
class Command:
    """One command of a block; a pipe has several."""

    text: str
    """The line, as it is typed."""

    variables: dict[str, str]
    """The variables of this command only."""

    words: list[str]
    """The program and its arguments."""

    output: str | None
    """The file that gets what it prints."""


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a block, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        for is_end, words in itertools.groupby(lexer, lambda word: set(word) <= set("|&;")):
            if not is_end:
                yield _command(line.partition("  #")[0].strip(), [*words])


def _command(line: str, words: list[str]) -> Command:
    variables, output = {}, None
    if ">" in words:
        *words, _, output = words
    while words and (found := _ASSIGNED.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words = words[1:]
    return Command(text=line, variables=variables, words=words, output=output)
