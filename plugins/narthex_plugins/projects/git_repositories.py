"""Fetches of one state of a Git repository, with the program `git`.

Credentials reach `git` through its environment, and a key through a file; neither is in its
arguments. `git` gets nothing of this process's environment but `PATH`, reads no configuration of
the machine, and runs neither hooks nor filters, as a new repository has none.

Repositories are hostile: a few kilobytes can describe files without number. So what is fetched is
bounded, and the files of a folder are counted before they are written.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import attrs

FETCH_S: Final = 300.0
"""How long each step may take."""
MOST_FETCHED_BYTES: Final = 1 << 30
"""The greatest size of one state of a repository, as it is sent, and of one file."""
MOST_FILES: Final = 20_000
"""The most files of a folder; most of them may be hidden, which a project does not have."""
MOST_BYTES: Final = 1 << 30
"""The greatest size of the files of a folder together."""

_BOUNDED: Final = f'ulimit -c 0 && ulimit -v {4 << 20} && ulimit -f "$1" && shift && exec "$@"'
"""Runs a command in 4 GiB of memory; no file that it makes is larger than the first argument."""

_BLOCK_BYTES: Final = 512
_NOT_FOUND: Final = 127
_LISTING_BYTES: Final = 8 << 20
_SETTINGS: Final = (
    *("-c", "core.symlinks=false", "-c", "gc.auto=0", "-c", "fetch.unpackLimit=1"),
    *("-c", "http.followRedirects=false"),
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
)
"""One file for all that is fetched, so that its size has a bound; and no password for others."""
_ASK: Final = """#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$NARTHEX_GIT_LOGIN" ;;
*) printf '%s\\n' "$NARTHEX_GIT_PASSWORD" ;;
esac
"""
_MOST_SHOWN: Final = 2_000


class FetchRefused(ValueError):
    """The repository may not be fetched, or the program refused; the message has what to change."""


class _FileTooLargeError(FetchRefused):
    """The program `git` wrote more than it may."""


@attrs.frozen(kw_only=True)
class GitRepository:
    """A repository, and the credentials for it.

    Attributes:
        url: Its address, without credentials.
        login: The name of the account for `https`.
        password: Its password or token.
        private_key: The text of a key for `ssh`; empty for the account's own.
        known_hosts: The lines of a `known_hosts` file; empty for the account's own.
    """

    url: str
    login: str = ""
    password: str = attrs.field(default="", repr=False)
    private_key: str = attrs.field(default="", repr=False)
    known_hosts: str = ""


def fetch(
    repository: GitRepository,
    ref: str,
    place: Path,
    *,
    schemes: Sequence[str],
    folder: PurePosixPath,
) -> str:
    """Fetch one state of a repository without its history, and write a folder to `place/source`.

    A folder that the repository lacks is not written.

    Args:
        repository: The repository.
        ref: A branch, a tag or a commit.
        place: An empty directory that only this account may enter.
        schemes: The schemes that the address may have.
        folder: The folder, below the root of the repository; `.` for all of it.

    Returns:
        The id of the Git commit.

    Raises:
        FetchRefused: The address is not allowed, the folder is too large, or `git` failed.
    """
    _check(repository.url, schemes)
    source = place / "source"
    environment = _environment(repository, place, schemes)

    def git(*arguments: str, most_bytes: int = MOST_FETCHED_BYTES) -> str:
        command = ("git", *_SETTINGS, *arguments)
        return _run(command, environment, repository, place=place, most_bytes=most_bytes)

    too_large = FetchRefused(
        f"`{folder}` of the repository has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB; "
        "name a folder that has the definitions only"
    )

    git("init", "--quiet", "--template=", str(source))
    at = ("-C", str(source))
    git(
        *at,
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--end-of-options",
        repository.url,
        ref,
    )
    listed = (*at, "--literal-pathspecs", "ls-tree", "-r", "-z", "-l", "--", "FETCH_HEAD")
    try:
        sizes = _sizes(git(*listed, str(folder), most_bytes=_LISTING_BYTES))
    except _FileTooLargeError:
        raise too_large from None
    if len(sizes) > MOST_FILES or sum(sizes) > MOST_BYTES:
        raise too_large
    if sizes:
        git(*at, "--literal-pathspecs", "checkout", "--quiet", "FETCH_HEAD", "--", str(folder))
    return git(*at, "rev-parse", "FETCH_HEAD").strip()


def _sizes(listing: str) -> list[int]:
    """Return the size of each file of a listing: `<mode> <kind> <id> <size>`, tab, path, NUL.

    A submodule has none.
    """
    found = (line.partition("\t")[0].split()[3] for line in listing.split("\0") if line)
    return [0 if one == "-" else int(one) for one in found]


def _check(url: str, schemes: Sequence[str]) -> None:
    try:
        parts = urlsplit(url)
        has_password = parts.password is not None
    except ValueError as error:
        raise FetchRefused(f"the address of the repository cannot be read: {error}") from None
    if has_password:
        raise FetchRefused(
            "the address of the repository has a password; store it in the connection's field "
            "`password`"
        )
    if parts.scheme not in schemes:
        raise FetchRefused(
            f"the address of the repository begins with `{parts.scheme or url[:40]}`; the "
            f"installation allows {', '.join(f'`{one}://`' for one in schemes) or 'none'} "
            "(`NARTHEX_GIT_SCHEMES`)"
        )


def _environment(
    repository: GitRepository, place: Path, schemes: Sequence[str]
) -> Mapping[str, str]:
    ask = _written(place / "ask", _ASK, mode=0o700)
    ssh = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    if repository.private_key:
        key = _written(place / "key", f"{repository.private_key.rstrip()}\n", mode=0o600)
        ssh += ["-o", "IdentitiesOnly=yes", "-i", str(key)]
    if repository.known_hosts:
        known = _written(place / "known_hosts", f"{repository.known_hosts}\n", mode=0o600)
        ssh += ["-o", f"UserKnownHostsFile={known}"]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(schemes),
        "GIT_ASKPASS": str(ask),
        "GIT_SSH_COMMAND": " ".join(ssh),
        "NARTHEX_GIT_LOGIN": repository.login,
        "NARTHEX_GIT_PASSWORD": repository.password,
    }


def _written(path: Path, text: str, *, mode: int) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    return path


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    repository: GitRepository,
    *,
    place: Path,
    most_bytes: int,
) -> str:
    """Return what `git` writes; neither that nor a file that it makes is larger than `most_bytes`.

    Raises:
        FetchRefused: It failed, or took too long.
    """
    for name in ("output", "errors"):  # of a command before this one
        (place / name).unlink(missing_ok=True)
    with (place / "output").open("xb") as output, (place / "errors").open("xb") as errors:
        process = subprocess.Popen(
            ("/bin/sh", "-c", _BOUNDED, "sh", str(most_bytes // _BLOCK_BYTES), *command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = process.wait(FETCH_S)
        except subprocess.TimeoutExpired:
            raise FetchRefused(f"`git` took longer than {FETCH_S:.0f} s; fetch less") from None
        finally:
            # Also the programs that it has started, which call the repository.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status == _NOT_FOUND:
        raise FetchRefused("the program `git` is not installed; install it")
    if status:
        said = _text(place / "errors").strip()
        if status == -signal.SIGXFSZ or _has_file_of(most_bytes, place):
            raise _FileTooLargeError(
                f"this state of the repository has more than {most_bytes >> 20} MiB; fetch less"
            )
        said = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "�", said)
        if repository.password:
            said = said.replace(repository.password, "***")
        raise FetchRefused(f"`git` failed: {said[:_MOST_SHOWN]}")
    return _text(place / "output")


def _has_file_of(size: int, place: Path) -> bool:
    """Whether a file was cut at a size: the program that `git` had started for it says nothing."""
    return any(one.stat().st_size >= size for one in place.rglob("tmp_pack_*"))


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
