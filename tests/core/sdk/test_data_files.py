"""Data files of a project travel with the code that reads them, and with no other code."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from narthex import data_files
from narthex._analysis.causes import change_causes
from narthex._analysis.changes import compare
from narthex._base.records import from_plain, to_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir.assets import Blueprint
from narthex._ir.code import CarriedFile, UserCode, codes_in
from narthex._ir.entities import Definitions
from narthex._sdk.closure import received, verify
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex.errors import (
    CodeDisagrees,
    CodeForbidden,
    CodeNotCarried,
    DataFileInvalid,
    DefinitionError,
    RecordNotUnderstood,
)

HEAD = """
from datetime import datetime

import pandas as pd

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import data_file, inputs, outputs

__owner__ = "a@narthex.dev"
"""
SHOP = """
WORDS = data_file("lists/words.txt")
RATES = data_file("rates.csv")

def words():
    return WORDS.read_text().split()

@source(Webhook(name="shop").endpoint("orders"), disorder="1h", cdc="append")
@dataset
class Orders:
    uid: int
    title: str
    at: datetime

@dataset
class Known:
    uid: int
    title: str
    at: datetime

    @pipeline
    @inputs(Orders)
    def known(cls, orders):
        return orders.filter(lambda df: df["title"].isin(words()))

@dataset(index=True)
class Titles:
    uid: int = field(key=True)
    title: str
    at: datetime

    @pipeline
    @inputs(Known)
    def titles(cls, known):
        return known.groupby("uid").latest()

@dataset
class Long:
    uid: int
    title: str
    at: datetime

    @pipeline
    @inputs(Orders)
    def long(cls, orders):
        return orders.filter(lambda df: df["title"].str.len() > 3)

@featureset
class Buyer:
    uid: int
    rate: float

    @extractor
    @inputs("uid")
    @outputs("rate")
    def rated(cls, ts, uid):
        return uid.map(pd.read_csv(RATES.open()).set_index("uid")["rate"])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a project of two data files."""
    found = tmp_path / "project"
    (found / "lists").mkdir(parents=True)
    (found / "narthex.toml").write_text("", encoding="utf-8")
    (found / "lists" / "words.txt").write_text("red green", encoding="utf-8")
    (found / "rates.csv").write_text("uid,rate\n1,0.5\n", encoding="utf-8")
    monkeypatch.chdir(found)
    return found


def loaded(project: Path, text: str = SHOP, *, below: str = ".") -> AuthorFile:
    file = project / below / "shop_with_files.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return load_file(file)


def definitions_of(project: Path, text: str = SHOP) -> Definitions:
    found = loaded(project, text)
    assert found.check() == ()
    return found.definitions()


def the_mistake(project: Path, text: str, *, below: str = ".") -> DefinitionError:
    (error,) = loaded(project, text, below=below).check()
    return error


def named(definitions: Definitions, entry: str) -> UserCode:
    return next(code for code in codes_in(definitions) if code.entry == entry)


def test_code_carries_the_files_that_it_reads_and_no_others(project: Path) -> None:
    definitions = definitions_of(project)

    files = [[(file.name, file.content) for file in code.files] for code in codes_in(definitions)]

    assert sorted(files) == [
        [],
        [("lists/words.txt", b"red green")],
        [("rates.csv", b"uid,rate\n1,0.5\n")],
    ]
    assert 'RATES = carried_file("rates.csv")' in named(definitions, "rated").source.replace(
        "'", '"'
    )
    assert received(definitions) == (definitions, [])


def test_a_file_of_another_module_travels_with_the_code_that_imports_it(project: Path) -> None:
    (project / "colours.py").write_text(
        "from narthex.lib import data_file\nCOLOURS = data_file('lists/words.txt')\n",
        encoding="utf-8",
    )
    text = SHOP.replace(
        'WORDS = data_file("lists/words.txt")', "from colours import COLOURS as WORDS"
    )

    definitions = definitions_of(project, text)

    carried = [file for code in codes_in(definitions) for file in code.files]
    assert ("lists/words.txt", b"red green") in {(file.name, file.content) for file in carried}


def test_the_content_is_that_of_the_import(project: Path) -> None:
    found = loaded(project)
    (project / "rates.csv").write_text("uid,rate\n1,9.5\n", encoding="utf-8")

    (file,) = named(found.definitions(), "rated").files

    assert file.content == b"uid,rate\n1,0.5\n"
    assert file.sha256 == hashlib.sha256(b"uid,rate\n1,0.5\n").digest()


def fingerprints(definitions: Definitions) -> dict[str, bytes]:
    blueprint: Blueprint = compile_blueprint(definitions)
    return {one.label: one.fingerprint for one in blueprint.assets}


def test_another_content_changes_the_assets_of_dependents_only(project: Path) -> None:
    before = fingerprints(definitions_of(project))
    (project / "lists" / "words.txt").write_text("red blue", encoding="utf-8")

    after = fingerprints(definitions_of(project))

    changed = {label for label in before if before[label] != after.get(label)}
    assert changed
    assert all("Known" in label or "Titles" in label for label in changed)
    unchanged = {label for label in before if label not in changed}
    assert any("Long" in label for label in unchanged)
    assert any("Orders" in label for label in unchanged)


def test_the_same_content_at_another_time_changes_nothing(project: Path) -> None:
    before = definitions_of(project)
    os.utime(project / "rates.csv", (1, 1))

    assert change_causes(before, definitions_of(project)) == ()


def test_a_plan_names_the_file_that_changed(project: Path) -> None:
    before = definitions_of(project)
    (project / "lists" / "words.txt").write_text("red blue", encoding="utf-8")
    (project / "rates.csv").write_text("uid,rate\n", encoding="utf-8")
    after = definitions_of(project)

    causes = {cause.entity: cause for cause in change_causes(before, after)}
    errors = [str(error) for error in compare(before, after, incremental=False).errors]

    assert set(causes) == {"dataset `Known`", "feature `Buyer.rate`"}
    old, new = (hashlib.sha256(text).hexdigest()[:12] for text in (b"red green", b"red blue"))
    assert str(causes["dataset `Known`"].difference).endswith(
        f"data file lists/words.txt` was `sha256:{old}` (9 bytes), is `sha256:{new}` (8 bytes)"
    )
    assert "data file rates.csv" in str(causes["feature `Buyer.rate`"].difference)
    assert any("data file lists/words.txt" in error for error in errors)


def _outside(project: Path) -> str:
    (project.parent / "secret.txt").write_text("s", encoding="utf-8")
    return "../secret.txt"


def _link_outside(project: Path) -> str:
    (project.parent / "secret.txt").write_text("s", encoding="utf-8")
    (project / "linked.txt").symlink_to(project.parent / "secret.txt")
    return "linked.txt"


def _below_link(project: Path) -> str:
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "secret.txt").write_text("s", encoding="utf-8")
    (project / "linked").symlink_to(project.parent / "elsewhere")
    return "linked/secret.txt"


def _circle(project: Path) -> str:
    (project / "round.txt").symlink_to(project / "round.txt")
    return "round.txt"


def _pipe(project: Path) -> str:
    os.mkfifo(project / "pipe")
    return "pipe"


def _large(project: Path) -> str:
    with (project / "large.bin").open("wb") as opened:
        opened.truncate(data_files.MOST_BYTES + 1)
    return "large.bin"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_outside, "outside the project"),
        (_link_outside, "outside the project"),
        (_below_link, "outside the project"),
        (_circle, "cannot be read"),
        (_pipe, "not a regular file"),
        (_large, f"has {data_files.MOST_BYTES + 1} bytes; at most {data_files.MOST_BYTES}"),
        (lambda _: "lists", "not a regular file"),
        (lambda _: "absent.txt", "cannot be read: No such file or directory"),
        (lambda _: "/etc/hostname", "absolute"),
        (lambda _: "~/.profile", "absolute"),
        (lambda _: r"lists\\words.txt", "backslash"),
        (lambda _: r"words.txt\0", "control character"),
        (lambda _: "", "not a text"),
    ],
)
def test_a_file_that_cannot_travel_is_refused_at_its_line(
    project: Path, made: Callable[[Path], str], why: str
) -> None:
    error = the_mistake(project, f'\n\nFILE = data_file("{made(project)}")\n')

    assert type(error) is DataFileInvalid
    assert why in error.message
    assert error.hint
    assert error.origin.line == len(HEAD.splitlines()) + 3


def test_a_link_inside_the_project_is_followed(project: Path) -> None:
    (project / "linked.csv").symlink_to(project / "rates.csv")

    definitions = definitions_of(project, SHOP.replace("rates.csv", "linked.csv"))

    assert named(definitions, "rated").files[0].content == b"uid,rate\n1,0.5\n"


def test_a_module_below_the_project_may_name_files_beside_its_directory(project: Path) -> None:
    text = SHOP.replace("lists/words.txt", "words.txt").replace("rates.csv", "../rates.csv")

    found = loaded(project, text, below="lists")

    assert found.check() == ()
    assert [file.name for file in named(found.definitions(), "rated").files] == ["../rates.csv"]


def test_without_a_project_file_the_directory_of_the_module_is_the_project(project: Path) -> None:
    (project / "narthex.toml").unlink()

    error = the_mistake(project, '\nFILE = data_file("../rates.csv")\n', below="lists")

    assert "outside the project" in error.message


LATE = SHOP.replace("WORDS.read_text().split()", 'data_file("lists/words.txt").read_text().split()')


def test_a_file_that_a_function_declares_is_refused(project: Path) -> None:
    error = the_mistake(project, LATE)

    assert type(error) is CodeForbidden
    assert "`narthex.lib.data_file`, which reads a file that the commit does not have" in str(error)
    assert "at the top" in error.hint


@pytest.mark.parametrize("path", ["RATES.name", "str(RATES.name)", "RATES.read_text()"])
def test_a_library_that_opens_a_path_is_refused_and_an_opened_data_file_is_not(
    project: Path, path: str
) -> None:
    error = the_mistake(project, SHOP.replace("RATES.open()", path))

    assert type(error) is CodeForbidden
    assert "`pandas.read_csv`, which reaches a file" in error.message


def test_two_files_of_one_name_in_one_function_are_refused(project: Path) -> None:
    (project / "lists" / "rates.csv").write_text("uid,rate\n1,7.5\n", encoding="utf-8")
    (project / "lists" / "__init__.py").write_text(
        "from narthex.lib import data_file\nOTHER = data_file('rates.csv')\n", encoding="utf-8"
    )
    text = "\nfrom lists import OTHER\n" + SHOP.replace(
        "return uid.map(", "return OTHER.read_text() and uid.map("
    )

    error = the_mistake(project, text)

    assert type(error) is CodeNotCarried
    assert "is the data file `rates.csv`, as is another one with other content" in error.message


def test_files_of_all_functions_together_are_bounded(project: Path) -> None:
    half = data_files.MOST_BYTES // 2
    (project / "rates.csv").write_bytes(b"x" * half)
    (project / "lists" / "words.txt").write_bytes(b"y" * half)
    assert loaded(project).check() == ()
    (project / "rates.csv").write_bytes(b"x" * (half + 1))

    error = the_mistake(project, SHOP)

    assert type(error) is DataFileInvalid
    assert f"more than {data_files.MOST_BYTES} bytes" in error.message
    assert f"`rates.csv` with {half + 1}" in error.message


def test_a_commit_has_each_content_once(project: Path) -> None:
    content = os.urandom(100_000)
    (project / "rates.csv").write_bytes(content)
    (project / "lists" / "words.txt").write_bytes(content)
    definitions = loaded(project).definitions()

    body = encode_commit(CommitPayload(message="files", definitions=definitions))

    assert body.count(content) == 1
    assert decode_commit(body).definitions == definitions
    assert [verify(code) for code in codes_in(decode_commit(body).definitions)] == [()] * 3
    assert from_plain(to_plain(definitions.featuresets)) == definitions.featuresets


def _with(code: UserCode, *files: CarriedFile) -> UserCode:
    return attrs.evolve(code, files=files)


FORGED = CarriedFile(name="rates.csv", sha256=hashlib.sha256(b"1").digest(), content=b"2")
OTHER = CarriedFile(name="other.csv", sha256=hashlib.sha256(b"1").digest(), content=b"1")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda code: _with(code, FORGED), "`rates.csv` of `rated` does not match its hash"),
        (_with, "asks for other data files than it has"),
        (lambda code: _with(code, OTHER), "asks for other data files than it has"),
        (lambda code: _with(code, OTHER, *code.files), "asks for other data files than it has"),
        (lambda code: _with(code, *code.files * 2), "not sorted by name, each once"),
    ],
)
def test_files_that_were_changed_on_the_way_are_refused(
    project: Path, change: Callable[[UserCode], UserCode], why: str
) -> None:
    code = change(named(definitions_of(project), "rated"))

    (error,) = verify(code)

    assert type(error) is CodeDisagrees
    assert why in error.message


def test_text_that_asks_for_a_file_by_a_computed_name_is_refused(project: Path) -> None:
    code = named(definitions_of(project), "rated")
    text = code.source.replace("carried_file('rates.csv')", "carried_file('rates' + '.csv')")
    assert text != code.source

    messages = [error.message for error in verify(attrs.evolve(code, source=text))]

    assert any("asks for other data files than it has" in message for message in messages)


def test_a_record_of_another_form_is_refused(project: Path) -> None:
    code = named(definitions_of(project), "rated")
    body = encode_commit(
        CommitPayload(message="files", definitions=definitions_of(project))
    ).replace(b"CarriedFile", b"Requirement")
    assert code.files

    with pytest.raises(RecordNotUnderstood):
        decode_commit(body)
    with pytest.raises(TypeError):
        attrs.evolve(code.files[0], content="text")
    with pytest.raises(TypeError):
        attrs.evolve(code, files=("rates.csv",))


def test_a_file_is_also_read_where_its_module_runs(project: Path) -> None:
    (project / "alone.py").write_text(
        "from narthex.lib import data_file\nRATES = data_file('rates.csv')\n", encoding="utf-8"
    )
    scope: dict[str, data_files.DataFile] = {}
    path = project / "alone.py"
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), scope)  # noqa: S102

    assert scope["RATES"].read_bytes() == b"uid,rate\n1,0.5\n"
    assert scope["RATES"].open().readline() == b"uid,rate\n"
    with pytest.raises(DataFileInvalid, match="does not belong to the code that runs"):
        data_files.carried_file("rates.csv").read_bytes()
