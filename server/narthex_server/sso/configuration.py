"""The file `sso.toml` of an installation: its provider, and the rights of the provider's groups.

It has no secret: it names the client's one.
"""

import datetime as dt
import tomllib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from narthex._base import parse_duration
from narthex_server.security.browser_sessions import LASTS
from narthex_server.security.route_rights import Right, rights_of

GREATEST_FILE_BYTES: Final = 1 << 20
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class SsoFileInvalid(ValueError):
    """The file has mistakes, so nobody can sign in by it.

    Attributes:
        mistakes: A sentence for each of them; none has a value of the file.
    """

    def __init__(self, file: str, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(f"{file}: {mistake}" for mistake in mistakes))
        self.mistakes = tuple(mistakes)


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read or change what is sent to an address.

    It is an `https` address, or one of this machine.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.password is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)


def _address(text: str) -> str:
    parts = urlsplit(text)
    if not text.isascii() or not text.isprintable() or " " in text or not is_private(text):
        raise ValueError("write an `https` address, or an `http` address of this machine")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise ValueError("write an address without a query and without `#`")
    return text


def _lifetime(text: object) -> object:
    if not isinstance(text, str):
        raise ValueError('write a duration in quotes, such as "8h"')  # noqa: TRY004 - pydantic reports it
    found = dt.timedelta(microseconds=parse_duration(text))
    if not dt.timedelta(minutes=1) <= found <= LASTS:
        raise ValueError("write a duration from 1 minute to 12 hours")
    return found


def _role(scope: str) -> str:
    rights = rights_of((scope,))
    if not rights:
        raise ValueError("this is neither a role nor a right")
    if Right.SPEAK_FOR in rights:
        raise ValueError("only Airflow acts for others; no group can have this")
    return scope


Address: TypeAlias = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_address)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Patterns: TypeAlias = Annotated[list[Annotated[str, Field(max_length=200)]], Field(min_length=1)]
Role: TypeAlias = Annotated[str, AfterValidator(_role)]


class _SsoTable(BaseModel):
    """A table of the file: it has no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class GroupRule(_SsoTable):
    """The rights of the people in a group.

    Attributes:
        group: The group's name or id, exactly as the provider sends it.
        roles: Roles and rights, as in `narthex token create --scope`.
        branches: Patterns of branches.
        tags: Patterns of tags.
    """

    group: Name
    roles: Annotated[list[Role], Field(min_length=1)]
    branches: Patterns = ["*"]
    tags: Patterns = ["*"]


class SsoFile(_SsoTable):
    """The whole file.

    Attributes:
        issuer: The provider, exactly as its discovery document names itself.
        name: The provider's name on the button.
        url: The address of this server for browsers; the provider must know
            `<url>/console/sso/callback`.
        client_secret_name: The name of a stored secret.
        client_secret_env: The environment variable of the server that has the secret.
        client_secret_file: The file that has the secret.
        scopes: Further scopes to request.
        trusts_email: Whether the provider verifies all e-mail addresses without stating it.
        groups_claim: The claim of the ID token with the groups.
        lifetime: After what time a session or a token ends.
        groups: The first rule with a group of the person decides.
    """

    issuer: Address
    name: Annotated[str, Field(min_length=1, max_length=60)] = "single sign-on"
    url: Address
    client_id: Name
    client_secret_name: Name | None = None
    client_secret_env: Name | None = None
    client_secret_file: Name | None = None
    scopes: list[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,100}$")]] = ["profile", "email"]
    trusts_email: bool = False
    groups_claim: Name = "groups"
    lifetime: Annotated[dt.timedelta, BeforeValidator(_lifetime)] = dt.timedelta(hours=8)
    groups: Annotated[list[GroupRule], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_one_secret(self) -> Self:
        named = (self.client_secret_name, self.client_secret_env, self.client_secret_file)
        if sum(one is not None for one in named) > 1:
            raise ValueError(
                "give one of `client_secret_name`, `client_secret_env` and `client_secret_file`"
            )
        return self

    @model_validator(mode="after")
    def _groups_differ(self) -> Self:
        names = [rule.group for rule in self.groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"rule {number + 1} of `groups` has the group of an earlier one")
        return self

    @property
    def callback(self) -> str:
        """The address to which the provider sends browsers back."""
        return f"{self.url.rstrip('/')}/console/sso/callback"

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers reach this server by `https`."""
        return self.url.startswith("https:")

    def rule_for(self, groups: Iterable[str]) -> GroupRule | None:
        """Return the first rule with one of these groups."""
        found = frozenset(groups)
        return next((rule for rule in self.groups if rule.group in found), None)


def load_sso_file(path: Path) -> SsoFile | None:
    """Read the file as it is now; None if there is none.

    Raises:
        SsoFileInvalid: It cannot be read, or has mistakes; the error lists all of them.
    """
    try:
        with path.open("rb") as file:
            content = file.read(GREATEST_FILE_BYTES + 1)
        if len(content) > GREATEST_FILE_BYTES:
            raise SsoFileInvalid(path.name, ["it is larger than 1 MiB"])
        text = content.decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SsoFileInvalid(path.name, [f"it cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise SsoFileInvalid(path.name, ["it is not UTF-8"]) from None
    return _parsed(text, path.name)


@lru_cache(maxsize=4)
def _parsed(text: str, file: str) -> SsoFile:
    try:
        return SsoFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SsoFileInvalid(file, [f"this is not TOML: {error}"]) from None
    except ValidationError as error:
        mistakes = [_sentence(mistake["loc"], mistake["msg"]) for mistake in error.errors()]
        raise SsoFileInvalid(file, mistakes) from None


def _sentence(place: Sequence[int | str], message: str) -> str:
    """Render a mistake with its place: `groups[2].roles[1]: …`; they are counted from one."""
    path = ""
    for part in place:
        if isinstance(part, int):
            path += f"[{part + 1}]"
        else:
            path += f".{part}" if path else part
    text = message.removeprefix("Value error, ")
    return f"`{path}`: {text}" if path else text
