"""Every name of the reference has an example, and the example shows what the name does.

Examples of calls that only a server answers are run by the server's tests.
"""

import sys
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Final

import attrs
import pytest

from docs.public_api import MODULES
from docs.reference_examples import examples_of, names_of_reference
from tests.sessions import asks_server, differences

pytestmark = pytest.mark.slow

WITHOUT: Final[dict[str, str]] = {}
"""Names of the reference that have no example, each with the reason. This may only shrink."""


def _here() -> list[object]:
    return [
        pytest.param(module, name, id=f"{module}: {name}")
        for module in MODULES
        for name, section in examples_of(module).sections.items()
        if not asks_server(section)
    ]


@attrs.frozen
class _LooksAgain:
    """Lets each import list a directory anew.

    Python compares the directory's time of change, which is too coarse for a file that an example
    has just written.
    """

    directory: str

    def find_spec(self, *_: object) -> None:
        sys.path_importer_cache.pop(self.directory, None)


@pytest.fixture
def project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty directory, from which an interactive Python also imports, and no module of tests."""
    for name in _modules_below(tmp_path_factory.getbasetemp()):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [_LooksAgain(str(tmp_path)), *sys.meta_path])
    yield tmp_path
    for name in _modules_below(tmp_path):
        del sys.modules[name]


def _modules_below(directory: Path) -> list[str]:
    """Return the names of the imported modules whose files are below a directory."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return [name for name, file in files.items() if file and Path(file).is_relative_to(directory)]


@pytest.mark.parametrize(("module", "name"), _here())
@pytest.mark.usefixtures("project")
def test_an_example_has_the_output_that_it_shows(module: str, name: str) -> None:
    # In a context of its own: the next test does not see this one's client.
    told = copy_context().run(differences, examples_of(module), name)

    assert not told, "".join(told)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_the_reference_has_an_example(module: str) -> None:
    names = [*names_of_reference(module)]
    examples = examples_of(module).sections

    missing = [name for name in names if name not in examples]
    unknown = [name for name in examples if name not in names]
    empty = [
        name for name, section in examples.items() if not any(one.want for one in section.sessions)
    ]

    assert missing == [name for name in missing if f"{module}.{name}" in WITHOUT]
    assert unknown == []
    assert empty == []


def test_names_without_an_example_exist_and_have_none() -> None:
    wanting = {
        f"{module}.{name}"
        for module in MODULES
        for name in names_of_reference(module)
        if name not in examples_of(module).sections
    }

    assert WITHOUT.keys() - wanting == set()
