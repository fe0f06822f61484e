"""The tokens of `narthex login`, by server, in a file that only its owner can read."""

import datetime as dt
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from narthex._base.atomic_write import atomic_write
from narthex._base.records import Json
from narthex.errors import ArgumentsUnfit

_OTHERS: Final = 0o077
"""The permissions of everybody but the owner of a file."""


@attrs.frozen(kw_only=True)
class StoredToken:
    """A token that a person got by signing in.

    Attributes:
        name: The person's name.
    """

    token: str = attrs.field(repr=False)
    name: str
    expires_at: dt.datetime


def tokens_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the file: `narthex/tokens.json` in the user's directory of configurations."""
    found = os.environ if environment is None else environment
    named = found.get("XDG_CONFIG_HOME", "")
    base = Path(named) if named.startswith("/") else Path.home() / ".config"
    return base / "narthex" / "tokens.json"


def store_token(url: str, token: StoredToken) -> Path:
    """Store the token for a server, instead of an earlier one; return the file."""
    path = tokens_file()
    now = dt.datetime.now(dt.UTC)
    known = {server: one for server, one in _read(path).items() if one.expires_at > now}
    plain = {
        server: {"token": one.token, "name": one.name, "expires_at": one.expires_at.isoformat()}
        for server, one in (known | {_server(url): token}).items()
    }
    atomic_write(path, json.dumps(plain, indent=2))
    return path


def stored_token(url: str) -> str:
    """Return the token for a server; empty without one, or once it has ended.

    Raises:
        ArgumentsUnfit: Others may read the file.
    """
    found = _read(tokens_file()).get(_server(url))
    is_valid = found is not None and found.expires_at > dt.datetime.now(dt.UTC)
    return found.token if found is not None and is_valid else ""


def _server(url: str) -> str:
    return url.rstrip("/")


def _read(path: Path) -> dict[str, StoredToken]:
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise ArgumentsUnfit(
                    f"`{path}` has tokens, and others may read it",
                    hint=f"run `chmod 600 {path}`, then `narthex login` for new tokens",
                )
            plain: Json = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise _unreadable(path) from None
    if not isinstance(plain, dict):
        raise _unreadable(path)
    return {server: _token(path, one) for server, one in plain.items()}


def _token(path: Path, plain: Json) -> StoredToken:
    if not isinstance(plain, dict):
        raise _unreadable(path)
    try:
        return StoredToken(
            token=str(plain["token"]),
            name=str(plain["name"]),
            expires_at=dt.datetime.fromisoformat(str(plain["expires_at"])).astimezone(dt.UTC),
        )
    except (KeyError, ValueError):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> ArgumentsUnfit:
    return ArgumentsUnfit(
        f"`{path}` cannot be read as tokens of `narthex login`",
        hint="delete it, and sign in again with `narthex login`",
    )
