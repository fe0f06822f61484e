"""One state of a Git repository is fetched; credentials are nowhere to be seen."""

import os
import subprocess
from pathlib import Path

import pytest

from narthex_plugins.projects.git_repositories import FetchRefused, GitRepository, fetch

FILES = ("file",)
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "ada"), ("EMAIL", "ada@narthex.dev"))
}


def git(place: Path, *arguments: str) -> str:
    return subprocess.run(
        ("git", "-C", str(place), *arguments),
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(place), **IDENTITY},
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, the first of which has a tag, and a link."""
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    for number in (1, 2):
        (place / "features.py").write_text(f"VERSION = {number}\n")
        if number == 1:
            (place / "link").symlink_to("/etc")
        git(place, "add", ".")
        git(place, "commit", "--quiet", "-m", f"version {number}")
        git(place, "tag", f"v{number}")
    return place


def fetched(url: str, ref: str, place: Path, *, password: str = "") -> str:
    place.mkdir(mode=0o700)
    return fetch(GitRepository(url=url, password=password), ref, place, schemes=FILES)


@pytest.mark.parametrize(("ref", "version"), [("v1", 1), ("main", 2)])
def test_a_ref_is_fetched_without_history(
    repository: Path, tmp_path: Path, ref: str, version: int
) -> None:
    place = tmp_path / "place"

    commit = fetched(f"file://{repository}", ref, place)

    source = place / "source"
    assert commit == git(repository, "rev-parse", f"{ref}^{{commit}}")
    assert (source / "features.py").read_text() == f"VERSION = {version}\n"
    assert not (source / "link").is_symlink()
    assert git(source, "rev-list", "--count", "HEAD") == "1"


def test_a_commit_is_fetched_by_its_id(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "v1^{commit}")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")

    assert fetched(f"file://{repository}", commit, tmp_path / "place") == commit


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.com/shop.git", r"allows `file://` \(`NARTHEX_GIT_SCHEMES`\)"),
        ("ext::sh -c evil", "the installation allows"),
        ("/etc", "the installation allows"),
        ("git@example.com:shop.git", "the installation allows"),
        ("file://ada:word@/shop", "field `password`"),
        ("file:///nowhere/at/all", "`git` failed"),
        ("--upload-pack=evil", "the installation allows"),
    ],
)
def test_an_address_is_refused_with_the_reason(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(FetchRefused, match=why):
        fetched(url, "main", tmp_path / "place")


def test_an_unknown_ref_is_refused_without_the_password(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(FetchRefused, match="nothing-like-it") as refused:
        fetched(
            f"file://{repository}", "nothing-like-it", tmp_path / "place", password="remote ref"
        )

    assert "remote ref" not in str(refused.value)


def test_credentials_are_in_the_environment_of_git_alone(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    programs = tmp_path / "bin"
    programs.mkdir()
    spy = programs / "git"
    spy.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {seen}\n/usr/bin/env > {seen}.env\n'
        f'PATH={os.environ["PATH"]} exec git "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("NARTHEX_TOKEN", "of-the-platform")

    fetched(f"file://{repository}", "main", tmp_path / "place", password="a-password")

    arguments, environment = seen.read_text(), Path(f"{seen}.env").read_text()
    assert "fetch" in arguments
    assert "a-password" not in arguments
    assert "NARTHEX_GIT_PASSWORD=a-password" in environment
    assert "of-the-platform" not in environment
