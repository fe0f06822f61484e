"""A project from Airflow's form is imported in the sandbox: its code sees its own files only."""

import os
import platform
from pathlib import Path, PurePosixPath

import pytest

from narthex._formats.wire import decode_commit
from narthex._ir.code import codes_in
from narthex._runtime.environments import BuildFailedError, PackageSource, environments_directory
from narthex.cli.projects import sandboxed_import
from narthex.cli.projects.sandboxed_import import CompiledProject, CopiedProject, compile_project
from narthex.errors import UserCodeError
from tests.core.tiny_wheels import tiny_wheel

pytestmark = [
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="the filter of calls has the numbers of x86_64"
    ),
    pytest.mark.slow,
]

SOUND = """from datetime import datetime

from names import SHOP
from narthex.connectors import Webhook, source
from narthex.datasets import dataset

__owner__ = "shop@narthex.dev"


@source(Webhook(SHOP).endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    user: str
    at: datetime
"""
WRONG = """from datetime import datetime

from narthex.datasets import dataset


@dataset
class Orders:
    user: complex
    at: datetime


@dataset
class Returns:
    user: object
    at: datetime
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The copied files of a project: only its owner may enter the directory above."""
    (tmp_path / "secret.txt").write_text("a secret")
    (tmp_path / "secret.txt").chmod(0o644)
    found = tmp_path / "files"
    (found / "shop").mkdir(parents=True)
    tmp_path.chmod(0o700)
    return found


def compiled(files: Path, text: str, source: PackageSource | None = None) -> CompiledProject:
    (files / "shop" / "features.py").write_text(text)
    project = CopiedProject(directory=files, file=PurePosixPath("shop/features.py"))
    return compile_project(project, message="a shop", source=source)


def test_a_sound_project_becomes_a_commit_with_its_own_places(files: Path) -> None:
    (files / "shop" / "names.py").write_text('SHOP = "shop"\n')

    found = compiled(files, SOUND)

    assert (found.report, found.datasets, found.featuresets) == ("", 1, 0)
    commit = decode_commit(found.payload)
    assert commit.message == "a shop"
    (orders,) = commit.definitions.datasets
    assert (orders.name, orders.origin.file) == ("Orders", "shop/features.py")


def test_a_project_sends_its_own_data_files_and_no_others(files: Path) -> None:
    (files / "shop" / "names.py").write_text('SHOP = "shop"\n')
    (files / "shop" / "words.txt").write_text("red green")
    (files / "shop" / "linked.txt").symlink_to(files.parent / "secret.txt")
    reading = (
        "from narthex.datasets import pipeline\nfrom narthex.lib import data_file, inputs\n"
        'WORDS = data_file("words.txt")\n'
        "@dataset\nclass Red:\n    user: str\n    at: datetime\n    @pipeline\n"
        "    @inputs(Orders)\n    def red(cls, orders):\n"
        "        return orders.filter(lambda df: df['user'].isin(WORDS.read_text().split()))\n"
    )

    found = compiled(files, SOUND + reading)
    outside = [
        compiled(files, SOUND + reading.replace("words.txt", path))
        for path in ("../../secret.txt", "linked.txt")
    ]

    assert found.report == ""
    sent = [
        file for code in codes_in(decode_commit(found.payload).definitions) for file in code.files
    ]
    assert [(file.name, file.content) for file in sent] == [("words.txt", b"red green")]
    assert [(one.payload, "[NX705]" in one.report) for one in outside] == [(b"", True)] * 2


PRICING = """
import tiny_prices

from narthex.datasets import pipeline
from narthex.lib import inputs


@dataset
class Priced:
    user: str
    price: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def priced(cls, orders):
        return orders.assign("price", float, lambda df: df["user"].map(tiny_prices.price))
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageSource:
    """An installation whose package index has one package, which this environment lacks."""
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path / "home"))
    return PackageSource(home=tmp_path / "home", index=str(tmp_path / "wheels"))


def test_a_project_imports_the_packages_of_its_lock(files: Path, source: PackageSource) -> None:
    shop = files / "shop"
    text = "def price(user):\n    return 2.5\n"
    wheel = tiny_wheel(Path(source.index), "tiny-prices", "1.0", {"tiny_prices.py": text})
    (shop / "names.py").write_text('SHOP = "shop"\n')
    (shop / "narthex.toml").write_text('requirements = "requirements.lock"\n')
    (shop / "requirements.lock").write_text(wheel.line)

    found = compiled(files, SOUND + PRICING, source)
    without = compiled(files, SOUND + PRICING)

    assert found.report == ""
    locked = [
        one for code in codes_in(decode_commit(found.payload).definitions) for one in code.locked
    ]
    assert [(one.distribution, one.version) for one in locked] == [("tiny-prices", "1.0")]
    assert without.payload == b""
    assert "tiny_prices" in without.report


def test_a_wrong_lock_is_reported_at_its_line(files: Path, source: PackageSource) -> None:
    shop = files / "shop"
    (shop / "names.py").write_text('SHOP = "shop"\n')
    (shop / "narthex.toml").write_text('requirements = "requirements.lock"\n')
    (shop / "requirements.lock").write_text("tiny-prices\n")

    found = compiled(files, SOUND, source)

    assert found.payload == b""
    assert "--> shop/requirements.lock:1" in found.report
    assert not environments_directory(source.home).exists()


def test_a_lock_of_very_many_packages_is_not_installed(files: Path, source: PackageSource) -> None:
    (files / "shop" / "narthex.toml").write_text('requirements = "requirements.lock"\n')
    lines = (f"tiny-{number}==1.0 --hash=sha256:{'0' * 64}\n" for number in range(201))
    (files / "shop" / "requirements.lock").write_text("".join(lines))

    with pytest.raises(BuildFailedError, match="201 packages"):
        compiled(files, SOUND, source)

    assert not environments_directory(source.home).exists()


def test_a_lock_above_the_copied_files_is_not_theirs(files: Path, source: PackageSource) -> None:
    (files / "shop" / "names.py").write_text('SHOP = "shop"\n')
    (files.parent / "narthex.toml").write_text('requirements = "requirements.lock"\n')
    wheel = tiny_wheel(Path(source.index), "tiny-prices", "1.0", {"tiny_prices.py": ""})
    (files.parent / "requirements.lock").write_text(wheel.line)

    found = compiled(files, SOUND, source)

    assert found.report == ""
    assert not environments_directory(source.home).exists()


def test_every_mistake_has_its_file_and_line(files: Path) -> None:
    found = compiled(files, WRONG)

    assert found.payload == b""
    assert "--> shop/features.py:8" in found.report
    assert "--> shop/features.py:14" in found.report
    assert "2 mistakes" in found.report


@pytest.mark.parametrize(
    "attempt",
    [
        "open('{secret}').read()",
        "open('/proc/self/environ').read()",
        "open('{files}/shop/new.py', 'w')",
        "__import__('os').listdir('/')",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').create_connection(('127.0.0.1', 1))",
        "__import__('os').environ['NARTHEX_TOKEN']",
    ],
)
def test_the_code_of_a_project_reaches_nothing(
    files: Path, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NARTHEX_TOKEN", "of-the-platform")
    text = attempt.format(secret=files.parent / "secret.txt", files=files)

    found = compiled(files, f"found = {text}\nraise SystemExit(str(found))\n")

    assert found.payload == b""
    assert "--> shop/features.py:1" in found.report, found.report
    assert "a secret" not in found.report
    assert "of-the-platform" not in found.report
    assert not (files / "shop" / "new.py").exists()


def test_a_report_cannot_rewrite_a_log(files: Path) -> None:
    found = compiled(files, "raise ValueError('\\x1b[2J\\rall is well')\n")

    assert "all is well" in found.report
    assert not set("\x1b\r") & set(found.report)


def test_an_import_that_does_not_end_is_killed(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxed_import, "IMPORT_S", 3.0)

    with pytest.raises(UserCodeError, match="did not answer in time"):
        compiled(files, "while True:\n    pass\n")
