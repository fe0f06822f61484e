"""One state of a Git repository is fetched; credentials are nowhere to be seen."""

import os
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

import pytest

from narthex_plugins.projects import git_repositories
from narthex_plugins.projects.git_repositories import FetchRefused, GitRepository, fetch

FILES = ("file",)
ALL = PurePosixPath(".")
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "ada"), ("EMAIL", "ada@narthex.dev"))
}


def git(place: Path, *arguments: str, written: str | None = None) -> str:
    return subprocess.run(
        ("git", "-C", str(place), *arguments),
        check=True,
        capture_output=True,
        text=True,
        input=written,
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


def fetched(url: str, ref: str, place: Path, *, password: str = "", folder: str = ".") -> str:
    place.mkdir(mode=0o700)
    repository = GitRepository(url=url, password=password)
    return fetch(repository, ref, place, schemes=FILES, folder=PurePosixPath(folder))


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
    assert git(source, "rev-list", "--count", "FETCH_HEAD") == "1"


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


def committed(place: Path, tree: str) -> str:
    """Commit a tree, and return the address of its repository."""
    commit = git(place, "commit-tree", "-m", "hostile", tree)
    git(place, "update-ref", "refs/heads/main", commit)
    return f"file://{place}"


def tree_of(place: Path, entries: Mapping[str, tuple[str, str, str]]) -> str:
    lines = (f"{mode} {kind} {at}\t{name}\n" for name, (mode, kind, at) in entries.items())
    return git(place, "mktree", "--missing", written="".join(lines))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    place = tmp_path / "empty"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    return place


def test_a_small_repository_of_very_many_files_is_not_written(empty: Path, tmp_path: Path) -> None:
    """Each level has the one below ten times, so that 60 objects are 100,000 files."""
    below = ("100644", "blob", git(empty, "hash-object", "-w", "--stdin", written="x"))
    for _ in range(5):
        tree = tree_of(empty, {f"f{number}": below for number in range(10)})
        below = ("040000", "tree", tree)
    url = committed(empty, below[2])

    with pytest.raises(FetchRefused, match="has more than 20000 files or 1024 MiB; name a folder"):
        fetched(url, "main", tmp_path / "place")

    assert [*(tmp_path / "place" / "source").iterdir()] == [tmp_path / "place" / "source" / ".git"]


def test_files_that_grow_when_they_are_written_are_refused(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repositories, "MOST_BYTES", 8 << 20)
    zeros = git(empty, "hash-object", "-w", "--stdin", written="\0" * (5 << 20))
    entries = dict.fromkeys(("one", "two"), ("100644", "blob", zeros))
    url = committed(empty, tree_of(empty, entries))

    with pytest.raises(FetchRefused, match="or 8 MiB; name a folder"):
        fetched(url, "main", tmp_path / "place")


def test_a_state_that_is_too_large_is_not_fetched(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repositories, "MOST_FETCHED_BYTES", 1 << 20)
    (empty / "noise").write_bytes(os.urandom(2 << 20))
    noise = git(empty, "hash-object", "-w", "noise")
    url = committed(empty, tree_of(empty, {"noise": ("100644", "blob", noise)}))

    with pytest.raises(FetchRefused, match="more than 1 MiB; fetch less"):
        fetched(url, "main", tmp_path / "place")


def test_only_the_folder_is_written_and_no_name_is_a_pattern_or_an_option(
    empty: Path, tmp_path: Path
) -> None:
    blob = ("100644", "blob", git(empty, "hash-object", "-w", "--stdin", written="A = 1\n"))
    inner = ("040000", "tree", tree_of(empty, {"features.py": blob}))
    submodule = ("160000", "commit", "1" * 40)
    entries = {"--upload-pack=x": inner, "a*": inner, "ab": inner, "module": submodule}
    url = committed(empty, tree_of(empty, entries))
    found = {}
    for number, folder in enumerate(["--upload-pack=x", "a*", ":(top)ab", "missing", "module"]):
        place = tmp_path / str(number)
        fetched(url, "main", place, folder=folder)
        source = place / "source"
        written = (one for one in source.rglob("*.py") if ".git" not in one.parts)
        found[folder] = [str(one.relative_to(source)) for one in written]

    assert found == {
        "--upload-pack=x": ["--upload-pack=x/features.py"],
        "a*": ["a*/features.py"],
        ":(top)ab": [],
        "missing": [],
        "module": [],
    }


def test_nothing_of_a_repository_is_run(repository: Path, tmp_path: Path) -> None:
    """Neither hooks, nor filters, nor settings that the files name."""
    ran = tmp_path / "ran"
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repository / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% {ran}\n\tupdate = !touch {ran}\n'
    )
    (repository / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {ran}\n')
    hook = repository / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "hostile")

    fetched(f"file://{repository}", "main", tmp_path / "place")

    assert (tmp_path / "place" / "source" / "hooks" / "post-checkout").exists()
    assert not ran.exists()


@contextmanager
def web_server(answer: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_password_is_not_sent_to_a_server_that_a_redirect_names(tmp_path: Path) -> None:
    heard: list[str | None] = []

    class Thief(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers["authorization"])
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="x"')
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with web_server(Thief) as thief:

        class Redirecting(Thief):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("location", f"{thief}{self.path}")
                self.send_header("content-length", "0")
                self.end_headers()

        place = tmp_path / "place"
        place.mkdir(mode=0o700)
        with web_server(Redirecting) as url:
            repository = GitRepository(url=f"{url}/shop.git", login="ada", password="a-password")
            with pytest.raises(FetchRefused, match="`git` failed"):
                fetch(repository, "main", place, schemes=("http",), folder=ALL)

    assert f"Basic {b64encode(b'ada:a-password').decode()}" not in heard
    assert heard == []


def test_a_repository_that_is_silent_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that calls a repository is a child of `git`, and must end with it."""
    monkeypatch.setattr(git_repositories, "FETCH_S", 1.0)
    asked, ended = threading.Event(), threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            self.connection.settimeout(20.0)
            if self.connection.recv(1) == b"":  # its end closes the connection
                ended.set()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    began = time.monotonic()
    with web_server(Silent) as url:
        with pytest.raises(FetchRefused, match="longer than 1 s"):
            fetch(
                GitRepository(url=f"{url}/shop.git"), "main", place, schemes=("http",), folder=ALL
            )

        assert asked.is_set()
        assert ended.wait(20.0)
    assert time.monotonic() - began < 15.0
