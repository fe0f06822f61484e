"""Commands that cannot run here name commands, options, files, targets and values that exist."""

import functools
import re
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
import yaml
from typer._click.exceptions import UsageError

from tests.guides.known_commands import (
    CHART,
    make_targets,
    parse,
    settings,
    unknown_values,
    unknown_words,
    wheels,
)
from tests.guides.pages import DOCS, PAGES, ROOT, Block, blocks, commands, place

_ASSIGNED: Final = re.compile(r"[A-Z_][A-Z0-9_]*=")
_INLINE: Final = re.compile(r"`narthex ([a-z][^`]*)`")
_FILE: Final = re.compile(r"[\w-]+\.(json|jsonl|csv|py)")


def check_narthex(_: Block, words: Sequence[str]) -> None:
    parse(words)


def check_make(_: Block, words: Sequence[str]) -> None:
    named = [word for word in words if not _ASSIGNED.match(word)]
    assert set(named) <= make_targets(), named


def check_file(_: Block, words: Sequence[str]) -> None:
    (name,) = words
    # The environment that `make setup` makes: this one has the same files.
    path = Path(sys.prefix, *Path(name).parts[1:]) if name.startswith(".venv/") else ROOT / name
    assert path.exists(), path


def check_pip(_: Block, words: Sequence[str]) -> None:
    verb, *named = words
    assert verb == "install"
    for word in named:
        name = word.removeprefix("build/wheels/")
        fits = [one for one in wheels() if fnmatch(f"{one}-0.1.0-py3-none-any.whl", name)]
        assert fits, word


def check_kubectl(block: Block, words: Sequence[str]) -> None:
    assert set(words) & {"create", "scale"}
    literals = {
        word.partition("=")[2].partition("=")[0]
        for word in words
        if word.startswith("--from-literal=")
    }
    if "secret" in words:
        assert literals == secret_keys()
        (values,) = (yaml.safe_load(one.text) for one in blocks(block.page, "yaml"))
        assert values["secret"] in words


def check_helm(block: Block, words: Sequence[str]) -> None:
    verb, _, chart, *options = words
    assert verb in {"install", "upgrade"}
    assert ROOT / chart == CHART
    assert (CHART / "Chart.yaml").is_file()
    assert options[-2:] == ["--values", "values.yaml"]
    (text,) = (one.text for one in blocks(block.page, "yaml"))
    known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert unknown_values(yaml.safe_load(text), known) == []


CHECKS: Final[dict[str, Callable[[Block, Sequence[str]], None]]] = {
    "narthex": check_narthex,
    ".venv/bin/narthex": check_narthex,
    "make": check_make,
    ".": check_file,
    "pip": check_pip,
    "kubectl": check_kubectl,
    "helm": check_helm,
}


@functools.cache
def secret_keys() -> frozenset[str]:
    """Return the keys of the Secret that the chart reads, with its own Airflow and indexes."""
    rendered = (ROOT / "tests" / "stack" / "helm" / "default.yaml").read_text(encoding="utf-8")
    found: set[str] = set()

    def look(at: object) -> None:
        match at:
            case {"secretKeyRef": {"key": str(key)}}:
                found.add(key)
            case dict():
                for one in at.values():
                    look(one)
            case list():
                for one in at:
                    look(one)

    for manifest in yaml.safe_load_all(rendered):
        look(manifest)
    return frozenset(found)


def check(block: Block, directory: Path) -> None:
    """Check each command of a block.

    Args:
        block: The block.
        directory: The present directory, which gets the files that a reader has.

    Raises:
        AssertionError, KeyError, UsageError: A command names what does not exist.
    """
    for command in commands(block.text):
        program, *words = command.words
        for name in words:
            if _FILE.fullmatch(name):
                (directory / name).touch()
        CHECKS[program](block, words)
        assert command.variables.keys() <= settings()


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page, "sh elsewhere")],
    ids=lambda block: block.place,
)
def test_commands_that_are_not_run_name_only_what_exists(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(block, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "narthex comit",
        "narthex commit features.py --massage x",
        "narthex restore",
        "narthex keys rotate signing now",
        ".venv/bin/narthex down --wipes",
        "make dema",
        ". .venv/bin/activated",
        "pip install build/wheels/narthexes-*.whl",
        "pip download narthex-*.whl",
        "kubectl create secret generic narthex-keys --from-literal=ledger-dns=a",
        "helm install narthex docker/helm/other --values values.yaml",
        "NARTHEX_PROFIL=production narthex commits",
        "rm -r build",
    ],
)
def test_a_command_that_names_what_does_not_exist_is_found(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, KeyError, UsageError)):
        check(Block(DOCS / "guide" / "kubernetes.md", 1, "sh elsewhere", line), tmp_path)


def test_commands_within_sentences_exist() -> None:
    unknown = [
        f"{place(page)}: `narthex {found[1]}`"
        for page in PAGES
        for found in _INLINE.finditer(page.read_text(encoding="utf-8"))
        if [*unknown_words(found[1].split())]
    ]

    assert unknown == []
