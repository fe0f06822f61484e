"""The policy file of an installation: the grants of its operator to its branches.

A policy grants files, endpoints of webhooks, topics of authors' brokers, secrets, and hosts beyond
the public internet. It enforces nothing itself: `narthex._analysis.policy.commit_checks` checks
commits against it, and jobs check the connections that they open.
"""

import fnmatch
import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import attrs

from narthex._base.file_paths import covers, path_mistake
from narthex._base.origin import Origin
from narthex.errors import PolicyInvalid

_GREATEST_PORT: Final = 65535
_HOST = re.compile(r"[A-Za-z0-9_*?\-]+(\.[A-Za-z0-9_*?\-]+)*\.?")
_R = TypeVar("_R")


@attrs.frozen(kw_only=True)
class FileRule:
    """Files that branches may read, and may write if the rule permits it.

    Attributes:
        path: Below the files root, or below a bucket; `narthex._base.file_paths` compares it.
        tags: The tags of the rows that are read from there.
    """

    path: str
    branches: tuple[str, ...]
    tags: tuple[str, ...] = ()
    write: bool = False


@attrs.frozen(kw_only=True)
class EndpointRule:
    """Endpoints of webhooks, the branches that may bind them, and the tokens that may write there.

    Attributes:
        name: A pattern for `webhook/endpoint`.
    """

    name: str
    branches: tuple[str, ...]
    tags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TopicRule:
    """Topics of brokers that branches may read, and may write if the rule permits it.

    Attributes:
        servers: A pattern for the bootstrap servers as a definition writes them.
    """

    name: str
    branches: tuple[str, ...]
    servers: str = "*"
    tags: tuple[str, ...] = ()
    write: bool = False


@attrs.frozen(kw_only=True)
class SecretRule:
    """Secrets that branches may name.

    Attributes:
        hosts: `host` or `host:port` that a connector may send it to; the host may be a pattern.
        code: Whether authors' code may read it.
    """

    name: str
    branches: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    code: bool = False


@attrs.frozen
class Egress:
    """The hosts that connectors may reach beyond the public internet.

    Attributes:
        allow: `host`, `host:port`, an address, or a network such as `10.0.0.0/8`.
    """

    allow: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Policy:
    """All rules of one installation; without a policy file, there are none."""

    files: tuple[FileRule, ...] = ()
    endpoints: tuple[EndpointRule, ...] = ()
    topics: tuple[TopicRule, ...] = ()
    secrets: tuple[SecretRule, ...] = ()
    egress: Egress = Egress()

    @classmethod
    def parse(cls, text: str, *, file: str = "policy.toml") -> "Policy":
        """Read a policy.

        Raises:
            PolicyInvalid: It has mistakes; the error lists all of them.
        """
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PolicyInvalid((f"this is not TOML: {error}",), origin=_at(file, 0)) from None
        mistakes: list[tuple[int, str]] = []
        reader = _Reader(text=text, mistakes=mistakes)
        found = reader.policy(tables)
        if mistakes:
            first = min(line for line, _ in mistakes)
            said = tuple(f"line {line}: {what}" if line else what for line, what in mistakes)
            raise PolicyInvalid(said, origin=_at(file, first))
        return found

    def file_rules(self, path: str) -> tuple[FileRule, ...]:
        """Return the rules that cover a path in the form that an author writes."""
        return tuple(rule for rule in self.files if covers(rule.path, path))

    def endpoint_rules(self, webhook: str, endpoint: str) -> tuple[EndpointRule, ...]:
        """Return the rules of an endpoint."""
        return tuple(r for r in self.endpoints if _fits(f"{webhook}/{endpoint}", r.name))

    def topic_rules(self, servers: str, topic: str) -> tuple[TopicRule, ...]:
        """Return the rules of a topic on the servers that a definition names."""
        return tuple(r for r in self.topics if _fits(servers, r.servers) and _fits(topic, r.name))

    def topics_named(self, topic: str) -> tuple[TopicRule, ...]:
        """Return the rules of a topic on any servers, as a broker has more than one address."""
        return tuple(rule for rule in self.topics if _fits(topic, rule.name))

    def secret_rules(self, name: str) -> tuple[SecretRule, ...]:
        """Return the rules of a secret."""
        return tuple(rule for rule in self.secrets if _fits(name, rule.name))


Rule = FileRule | EndpointRule | TopicRule | SecretRule


def granted(rules: Iterable[Rule], branch: str) -> bool:
    """Whether one of the rules applies to a branch."""
    return any(_fits(branch, pattern) for rule in rules for pattern in rule.branches)


def tags_of_rules(rules: Iterable[FileRule | EndpointRule | TopicRule]) -> frozenset[str]:
    """Return the tags of the rows that these rules apply to, on any branch."""
    return frozenset(tag for rule in rules for tag in rule.tags)


def load_policy(path: Path) -> Policy:
    """Return the policy of a file as it is now; a missing file is a policy without rules.

    Each call reads the file, so an edit takes effect at once, whatever its time and size. The
    file is parsed only when its content has changed.

    Raises:
        PolicyInvalid: It cannot be read, or has mistakes; each operation that needs it is refused.
    """
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        if path.is_symlink():
            raise PolicyInvalid(
                ("the symbolic link is broken",), origin=_at(str(path), 0)
            ) from None
        return Policy()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyInvalid((f"it cannot be read: {error}",), origin=_at(str(path), 0)) from None
    return _parsed(text, str(path))


@lru_cache(maxsize=8)
def _parsed(text: str, file: str) -> Policy:
    return Policy.parse(text, file=file)


def _at(file: str, line: int) -> Origin:
    return Origin(file=file, line=line)


def _fits(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


@attrs.frozen
class _Wanted:
    """The expected value of one key of a rule."""

    kind: type
    title: str
    mistake: Callable[[str], str] = attrs.field(default=lambda _: "")
    is_needed: bool = False


def _empty(text: str) -> str:
    return "" if text else "it is empty"


def egress_mistake(text: str) -> str:
    """Return the mistake in an entry of `[egress] allow`; empty if it is valid."""
    if "/" not in text:
        return host_mistake(text)
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        return f"it is not a network: {error}"
    return ""


def host_mistake(text: str) -> str:
    """Return the mistake in a `host` or `host:port`; empty if it is valid."""
    host, port = split_host(text)
    if port is not None and not (port.isdecimal() and 0 < int(port) <= _GREATEST_PORT):
        return "its port is not a number from 1 to 65535"
    if ":" in host or text.startswith("["):
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return "it is neither `host`, `host:port`, `[address]` nor `[address]:port`"
        return ""
    return "" if _HOST.fullmatch(host) else "it is not the name or the address of a host"


def split_host(text: str) -> tuple[str, str | None]:
    """Split `host:port` or `[address]:port`; the port is None where there is none."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        return bracketed[1], bracketed[2]
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text, None


_TEXT = "a text"
_TEXTS = "a list of texts"
_BRANCHES = _Wanted(list, _TEXTS, _empty, is_needed=True)
_NAME = _Wanted(str, _TEXT, _empty, is_needed=True)
_TAGS = _Wanted(list, _TEXTS, _empty)
_FLAG = _Wanted(bool, "true or false")

_KEYS: Final[Mapping[type, Mapping[str, _Wanted]]] = {
    FileRule: {
        "path": _Wanted(str, _TEXT, path_mistake, is_needed=True),
        "branches": _BRANCHES,
        "tags": _TAGS,
        "write": _FLAG,
    },
    EndpointRule: {"name": _NAME, "branches": _BRANCHES, "tags": _TAGS},
    TopicRule: {
        "name": _NAME,
        "branches": _BRANCHES,
        "servers": _Wanted(str, _TEXT, _empty),
        "tags": _TAGS,
        "write": _FLAG,
    },
    SecretRule: {
        "name": _NAME,
        "branches": _BRANCHES,
        "hosts": _Wanted(list, _TEXTS, host_mistake),
        "code": _FLAG,
    },
    Egress: {"allow": _Wanted(list, _TEXTS, egress_mistake)},
}
_TABLES: Final = ("files", "endpoints", "topics", "secrets", "egress")


@attrs.frozen(kw_only=True)
class _Reader:
    """Builds values from parsed TOML and collects each mistake with its line."""

    text: str
    mistakes: list[tuple[int, str]]

    def policy(self, tables: Mapping[str, object]) -> Policy:
        for name in tables.keys() - set(_TABLES):
            self._note(0, f"unknown table `{name}`; the tables are {', '.join(_TABLES)}")
        return Policy(
            files=self._rules(FileRule, "files", tables),
            endpoints=self._rules(EndpointRule, "endpoints", tables),
            topics=self._rules(TopicRule, "topics", tables),
            secrets=self._rules(SecretRule, "secrets", tables),
            egress=self._egress(tables.get("egress", {})),
        )

    def _egress(self, table: object) -> Egress:
        line = self._line(r"\[\s*egress\s*\]", 0)
        if not isinstance(table, dict):
            self._note(line, "`egress` is one table, `[egress]`")
            return Egress()
        return self._made(Egress, table, "[egress]", line) or Egress()

    def _rules(self, kind: type[_R], name: str, tables: Mapping[str, object]) -> tuple[_R, ...]:
        found = tables.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self._note(0, f"`{name}` is a list of tables, each under its own `[[{name}]]`")
            return ()
        header = rf"\[\[\s*{name}\s*\]\]"
        made = [
            self._made(kind, table, f"[[{name}]]", self._line(header, number))
            for number, table in enumerate(found)
        ]
        return tuple(one for one in made if one is not None)

    def _made(
        self, kind: type[_R], table: Mapping[str, object], title: str, line: int
    ) -> _R | None:
        wanted = _KEYS[kind]
        said = [
            *(
                f"has the unknown key `{key}`; the keys are {', '.join(wanted)}"
                for key in table
                if key not in wanted
            ),
            *(f"lacks `{k}`" for k, one in wanted.items() if one.is_needed and k not in table),
            *(what for key in wanted if key in table for what in _wrong(key, wanted, table[key])),
        ]
        for what in said:
            self._note(line, f"`{title}` {what}")
        if said:
            return None
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})

    def _line(self, header: str, number: int) -> int:
        """Return the line of the header of a table, counted from one; zero if it is not found."""
        lines = enumerate(self.text.splitlines(), start=1)
        found = [at for at, line in lines if re.match(rf"\s*{header}", line)]
        return found[number] if number < len(found) else 0

    def _note(self, line: int, what: str) -> None:
        self.mistakes.append((line, what))


def _wrong(key: str, wanted: Mapping[str, _Wanted], value: object) -> Iterator[str]:
    one = wanted[key]
    is_list = one.kind is list
    texts = value if isinstance(value, list) else [value]
    is_right = isinstance(value, one.kind) and (
        not is_list or all(isinstance(text, str) for text in texts)
    )
    if not is_right:
        yield f"`{key}` is not {one.title}"
        return
    if one.kind is list and one.is_needed and not texts:
        yield f"`{key}` is empty, so the rule grants nothing"
    for text in texts:
        mistake = one.mistake(text) if isinstance(text, str) else ""
        if mistake:
            yield f"`{key}` has `{text}`: {mistake}"
