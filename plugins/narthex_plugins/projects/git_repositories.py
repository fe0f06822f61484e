"""Fetches of one state of a Git repository, with the program `git`.

Credentials reach `git` through its environment, and a key through a file; neither is in its
arguments. `git` gets nothing of this process's environment but `PATH`, reads no configuration of
the machine, and runs neither hooks nor filters, as a new repository has none.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs

FETCH_S: Final = 300.0
_ASK: Final = """#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$NARTHEX_GIT_LOGIN" ;;
*) printf '%s\\n' "$NARTHEX_GIT_PASSWORD" ;;
esac
"""
_MOST_SHOWN: Final = 2_000


class FetchRefused(ValueError):
    """The repository may not be fetched, or the program refused; the message has what to change."""


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


def fetch(repository: GitRepository, ref: str, place: Path, *, schemes: Sequence[str]) -> str:
    """Fetch one state of a repository without its history, and write it to `place/source`.

    Args:
        repository: The repository.
        ref: A branch, a tag or a commit.
        place: An empty directory that only this account may enter.
        schemes: The schemes that the address may have.

    Returns:
        The id of the Git commit.

    Raises:
        FetchRefused: The address is not allowed, or `git` failed.
    """
    _check(repository.url, schemes)
    source = place / "source"
    environment = _environment(repository, place, schemes)
    settings = ("-c", "core.symlinks=false", "-c", "gc.auto=0")

    def git(*arguments: str) -> str:
        return _run(("git", *settings, *arguments), environment, repository)

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
    git(*at, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    return git(*at, "rev-parse", "FETCH_HEAD").strip()


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


def _run(command: Sequence[str], environment: Mapping[str, str], repository: GitRepository) -> str:
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_S,
            check=False,
        )
    except FileNotFoundError:
        raise FetchRefused("the program `git` is not installed; install it") from None
    except subprocess.TimeoutExpired:
        raise FetchRefused(f"`git` took longer than {FETCH_S:.0f} s; fetch less") from None
    if done.returncode:
        said = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "�", done.stderr.strip())
        if repository.password:
            said = said.replace(repository.password, "***")
        raise FetchRefused(f"`git` failed: {said[:_MOST_SHOWN]}")
    return done.stdout
