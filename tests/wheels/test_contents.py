"""The wheel contains what runs, and nothing of a contributor's tree."""

import re
import zipfile
from pathlib import Path

import pytest

from tests.wheels.declared_project import NARTHEX, ROOT

pytestmark = pytest.mark.wheels


@pytest.fixture(scope="module")
def texts(wheel: Path) -> dict[str, bytes]:
    """Return the files of the wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_it_has_every_file_of_its_packages_and_the_dags(texts: dict[str, bytes]) -> None:
    found = {name for name in texts if ".dist-info/" not in name}

    assert found == {place for place, _ in NARTHEX.files()}
    assert "narthex_plugins/dags/commit.py" in found


def test_it_has_no_test_and_names_no_path_of_a_checkout(texts: dict[str, bytes]) -> None:
    assert [name for name in texts if re.search(r"(^|/)(test_\w+|conftest)\.py$", name)] == []
    assert [name for name, text in texts.items() if str(ROOT).encode() in text] == []
    assert [name for name in texts if name.endswith("licenses/LICENSE")]


def test_files_that_are_read_at_run_time_are_in_it(texts: dict[str, bytes]) -> None:
    assert "narthex_stack/jars.sha256" in texts
    assert "narthex_ledger/db/migrations/script.py.mako" in texts
    assert "narthex_ledger/db/migrations/versions/0001_first.sql" in texts
    assert "narthex_server/console/console.css" in texts
    assert "narthex_server/console/templates/layout.html" in texts
    assert "narthex_plugins/spark/run_job.py" in texts
