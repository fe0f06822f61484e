"""Each mistake that an author can make is reported with its code, its file and its line."""

from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest

from narthex._compiler.capability import not_carried_out
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex.errors import DefinitionError, NarthexError, catalogue
from tests.cases import every
from tests.core.provoked_errors import ELSEWHERE, FILES, HEAD, HINTLESS

HERE = Path(__file__).parent


def _written(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> AuthorFile:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "provoking.py"
    file.write_text(text, encoding="utf-8")
    return load_file(file)


def _all_errors(of: AuthorFile) -> tuple[DefinitionError, ...]:
    return of.check() or not_carried_out(of.definitions())


def _is_one(cls: type[NarthexError]) -> bool:
    return cls.__module__ == "narthex.errors" and not cls.__subclasses__()


def test_every_error_has_a_test_that_provokes_it() -> None:
    wanted = {code for code, cls in catalogue().items() if _is_one(cls)}

    assert wanted == FILES.keys() | ELSEWHERE.keys()
    assert not FILES.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("code", FILES)
def test_a_mistake_is_reported_alone_with_its_file_and_line(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD + FILES[code]
    (line,) = [at for at, said in enumerate(text.split("\n"), 1) if said.endswith("# here")]

    (error,) = _all_errors(_written(tmp_path, text, monkeypatch))

    assert type(error) is catalogue()[code]
    assert (error.origin.file, error.origin.line) == ("provoking.py", line)
    assert bool(error.hint) is (code not in HINTLESS)


@every("code", ELSEWHERE)
def test_each_error_that_no_file_provokes_names_its_test(code: str) -> None:
    module, _, name = ELSEWHERE[code].partition("::")
    (file,) = [*HERE.rglob(f"{module}.py")] or HERE.parent.rglob(f"{module}.py")
    dotted = ".".join(file.relative_to(HERE.parents[1]).with_suffix("").parts)
    source = getsource(getattr(import_module(dotted), name))

    assert code in source or catalogue()[code].__name__ in source


def test_the_head_alone_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _all_errors(_written(tmp_path, HEAD, monkeypatch)) == ()


def test_mistakes_of_three_entities_are_reported_together_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        FILES["NX801"].replace("D:", "Lost:").replace("\ndel Orders\n", ""),
        FILES["NX806"].replace("D:", "Wrong:"),
        FILES["NX803"].replace("F:", "Circle:"),
    ]
    text = HEAD + "".join(parts) + "\ndel Orders\n"
    lines = [at for at, said in enumerate(text.split("\n"), 1) if said.endswith("# here")]

    errors = _all_errors(_written(tmp_path, text, monkeypatch))

    told = [(error.code, error.origin.line) for error in errors]
    assert told == list(zip(["NX801", "NX806", "NX803"], lines, strict=True))
    assert {error.origin.file for error in errors} == {"provoking.py"}
