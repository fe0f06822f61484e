"""Which servers a definition may connect to: host spellings, address ranges, allow entries.

Everything here is pure except `resolve`, the one function that queries the name service. A caller
connects to an address that `resolve` returned and keeps the name for TLS and for headers, so a
name that resolves differently a moment later changes nothing.
"""

import fnmatch
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
from typing_extensions import override

from narthex.errors import ConnectionDenied

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
LookUp: TypeAlias = Callable[[str, int], Sequence[str]]
"""Resolves a name and a port to textual addresses."""

GREATEST_PORT: Final = 65_535
_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_GREATEST_NAME: Final = 253
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_ZONE: Final = "%"
_WILD: Final = frozenset("*?")

_DENIED_V4: Final = (
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("10.0.0.0/8", "private"),
    ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("168.63.129.16/32", "cloud metadata"),
    ("0.0.0.0/8", "unspecified"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_DENIED_V6: Final = (
    ("::1/128", "loopback"),
    ("::/128", "unspecified"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("fe80::/10", "link-local"),
    ("fc00::/7", "unique local"),
    ("ff00::/8", "multicast"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
)
_DENIED: Final[tuple[tuple[Network, str], ...]] = tuple(
    (ipaddress.ip_network(network), what) for network, what in (*_DENIED_V4, *_DENIED_V6)
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "ip6-loopback"})
_METADATA_NAMES: Final = frozenset({"metadata", "metadata.google.internal", "instance-data"})


class AddressInvalidError(ValueError):
    """A text is not a host, a host list or an HTTP address; the message contains the reason."""


@attrs.frozen(order=True)
class Destination:
    """One server that a connection goes to.

    Attributes:
        host: A name in lower case, or an address without brackets.
        port: None where the protocol's own client chooses it.
    """

    host: str
    port: int | None = None

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def address(self) -> Address | None:
        """The host as an address; None for a name."""
        return _literal(self.host)


@attrs.frozen(kw_only=True)
class HttpAddress:
    """The parts of an `http` or `https` address that a request needs.

    Attributes:
        path: Without a `/` at its end; empty for the root.
    """

    scheme: str
    target: Destination
    path: str

    @property
    def port(self) -> int:
        """The port that a connection uses."""
        return self.target.port or (443 if self.scheme == "https" else 80)


@attrs.frozen
class AllowEntry:
    """One line of the operator's allow list.

    Attributes:
        host: A name, an address or a pattern; empty for a network.
        port: None for all ports.
    """

    host: str
    network: Network | None = None
    port: int | None = None

    def matches(self, target: Destination, address: Address | None) -> bool:
        """Whether this line allows a connection to a target at an address."""
        if self.port is not None and self.port != target.port:
            return False
        if self.network is None:
            return fits_host(target.host, self.host)
        return (
            address is not None
            and address.version == self.network.version
            and address in self.network
        )


@attrs.frozen
class EgressRules:
    """The operator's allow list over the built-in denied ranges."""

    entries: tuple[AllowEntry, ...] = ()

    @classmethod
    def of(cls, allow: Iterable[str]) -> "EgressRules":
        """Read the entries of `egress.allow`.

        Raises:
            AddressInvalidError: An entry is not a host, an address or a network.
        """
        return cls(tuple(parse_allow_entry(entry) for entry in allow))

    def names(self, target: Destination) -> bool:
        """Whether an entry lists the target's own host."""
        return any(entry.matches(target, target.address) for entry in self.entries)

    def refuse(self, target: Destination, address: Address) -> str:
        """Return why a connection to an address is denied; empty if it is allowed."""
        if any(entry.matches(target, address) for entry in self.entries):
            return ""
        what = denied_range(address)
        return f"`{target}` is {_located(target, address)} ({what})" if what else ""

    def refuse_unresolved(self, target: Destination) -> str:
        """Return why a target is denied before its name is resolved; empty if it may be tried."""
        address = target.address
        if address is not None:
            return self.refuse(target, address)
        if self.names(target):
            return ""
        if target.host in _LOCAL_NAMES or target.host.endswith(".localhost"):
            return f"`{target}` is this machine (loopback)"
        if target.host in _METADATA_NAMES:
            return f"`{target}` is the cloud's metadata service"
        return ""


def denied_range(address: Address) -> str:
    """Return the kind of range that an address is denied for; empty if it is public."""
    for network, what in _DENIED:
        if address.version == network.version and address in network:
            return what
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return "not global unicast"
    return ""


def parse_allow_entry(entry: str) -> AllowEntry:
    """Read one entry: a network, or a pattern of `parse_pattern`; an address is a network of one.

    Raises:
        AddressInvalidError: The entry is none of these.
    """
    if "/" in entry:
        try:
            return AllowEntry(host="", network=ipaddress.ip_network(entry))
        except ValueError as error:
            raise AddressInvalidError(f"`{entry}` is not a network: {error}") from None
    target = parse_pattern(entry)
    network = None if target.address is None else ipaddress.ip_network(target.address)
    return AllowEntry(host=target.host, network=network, port=target.port)


def parse_pattern(entry: str) -> Destination:
    """Read `host` or `host:port` of a policy, whose host may have `*` and `?`.

    Raises:
        AddressInvalidError: The entry is not such a host.
    """
    host, port = _without_port(entry)
    if _WILD & set(host):
        return Destination(host.lower(), port)
    return Destination(parse_host(host), port)


def fits_host(host: str, pattern: str) -> bool:
    """Whether a host fits a pattern of a policy.

    `*` alone fits every host, and `*.domain` every name below a domain. Elsewhere a wildcard
    matches a part between two dots, and the last part of a name has none: `db*` must not fit
    `db.evil.example`, and `10.0.*.*` fits addresses only.
    """
    if pattern in {"*", host}:
        return True
    if not _WILD & set(pattern):
        return False
    if pattern.startswith("*.") and not _WILD & set(pattern[2:]):
        return host.endswith(pattern[1:])
    parts, wanted = host.split("."), pattern.split(".")
    is_address = _literal(host) is not None
    if len(parts) != len(wanted) or (_WILD & set(wanted[-1]) and not is_address and len(parts) > 1):
        return False
    return all(fnmatch.fnmatchcase(part, one) for part, one in zip(parts, wanted, strict=True))


def parse_host(text: str) -> str:
    """Read a host: an ASCII name, or an address in its usual spelling.

    Raises:
        AddressInvalidError: It is neither, such as a number (`2130706433`, `0x7f.1`), a socket's
            path, a list, or a name with a character outside of ASCII.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare or bare.startswith("["):
        return _ipv6(bare)
    host = bare.removesuffix(".").lower()
    if len(host) > _GREATEST_NAME or not _NAME.fullmatch(host) or bare != text:
        raise AddressInvalidError(f"`{text}` is not the name of a host")
    if _NUMBER.fullmatch(host.rsplit(".", 1)[-1]):
        return _ipv4(host)
    return host


def parse_target(text: str, *, default_port: int | None = None) -> Destination:
    """Read `host` or `host:port`; an IPv6 address with a port is in brackets.

    Raises:
        AddressInvalidError: The text is not such an address.
    """
    host, port = _without_port(text)
    return Destination(parse_host(host), default_port if port is None else port)


def parse_targets(text: str, *, default_port: int | None = None) -> tuple[Destination, ...]:
    """Read a list such as Kafka's bootstrap servers, `host:port,host:port`.

    Raises:
        AddressInvalidError: One of its parts is not an address, or the list is empty.
    """
    parts = [part.strip(" ") for part in text.split(",")]
    # librdkafka accepts `PROTOCOL://host:port`, which would hide the host from other readers.
    return tuple(parse_target(part, default_port=default_port) for part in parts)


def parse_http(text: str) -> HttpAddress:
    """Read an address of a server over HTTP; without a scheme it is `http`.

    Raises:
        AddressInvalidError: It has another scheme, credentials, a query, a fragment or a control
            character, or its host is not one.
    """
    if any(character <= " " or character == "\\" or character > "~" for character in text):
        raise AddressInvalidError(f"`{text!r}` has a character that is not allowed in an address")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise AddressInvalidError(f"`{text}` is not an address: {error}") from None
    if parts.scheme not in {"http", "https"}:
        raise AddressInvalidError(f"`{text}` has the scheme `{parts.scheme}`, not http or https")
    if "@" in parts.netloc:
        raise AddressInvalidError("the address contains credentials")
    if "?" in text or "#" in text:
        raise AddressInvalidError(f"`{text}` has a query or a fragment")
    target = parse_target(parts.netloc)
    return HttpAddress(scheme=parts.scheme, target=target, path=parts.path.rstrip("/"))


def parse_path(text: str) -> str:
    """Read the path of a request, which begins with `/` from here on; it may have a query.

    Raises:
        AddressInvalidError: It names a server, or has a fragment or a control character.
    """
    if any(character <= " " or character == "\\" or character > "~" for character in text):
        raise AddressInvalidError(f"`{text!r}` has a character that is not allowed in a path")
    if "#" in text or "://" in text.partition("?")[0] or text.startswith("//"):
        raise AddressInvalidError(f"`{text}` is not a path")
    return text if text.startswith("/") else f"/{text}"


def is_granted(target: Destination, hosts: Iterable[str]) -> bool:
    """Whether the hosts of a secret's rule (`host`, `host:port`, patterns) include a target.

    Raises:
        AddressInvalidError: One of them is not a host.
    """
    patterns = [parse_pattern(entry) for entry in hosts]
    return any(
        pattern.port in {None, target.port} and fits_host(target.host, pattern.host)
        for pattern in patterns
    )


def resolve(
    target: Destination, rules: EgressRules, *, look_up: LookUp | None = None
) -> tuple[Address, ...]:
    """Resolve a target's host; every address of it must be allowed.

    Raises:
        ConnectionDenied: One of its addresses is in a denied range.
        OSError: The name does not resolve.
    """
    early = rules.refuse_unresolved(target)
    if early:
        raise _denied(early)
    literal = target.address
    found = (
        (literal,)
        if literal is not None
        else _addresses((look_up or system_look_up)(target.host, target.port or 0))
    )
    if not found:
        raise OSError(f"`{target.host}` has no address")
    for address in found:
        reason = rules.refuse(target, address)
        if reason:
            raise _denied(reason)
    return found


def system_look_up(host: str, port: int) -> tuple[str, ...]:
    """Resolve a name as this machine does.

    Raises:
        OSError: The name does not resolve.
    """
    address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(where[0]) for *_, where in address_infos))


def _denied(reason: str) -> ConnectionDenied:
    return ConnectionDenied(
        f"the connection is denied: {reason}",
        hint="use a public host, or ask the operator to list it in `[egress] allow`",
    )


def _addresses(texts: Iterable[str]) -> tuple[Address, ...]:
    return tuple(ipaddress.ip_address(text) for text in texts)


def _located(target: Destination, address: Address) -> str:
    return "an address of this kind" if target.address == address else f"at {address}"


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise AddressInvalidError(
            f"`{text}` is not a canonical IPv4 address of four decimal numbers"
        ) from None


def _ipv6(text: str) -> str:
    if _ZONE in text:
        raise AddressInvalidError(f"`{text}` has a zone")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise AddressInvalidError(f"`{text}` is not the name of a host") from None


def _without_port(text: str) -> tuple[str, int | None]:
    """Split the port off; a bare IPv6 address has none."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        if bracket and (not rest or rest.startswith(":")):
            return host[1:], _port(rest[1:], text) if rest else None
        raise AddressInvalidError(f"`{text}` has a bracket that is not closed")
    if text.count(":") != 1:
        return text, None
    host, _, port = text.partition(":")
    return host, _port(port, text)


def _port(text: str, whole: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= GREATEST_PORT:
        return int(text)
    raise AddressInvalidError(f"`{whole}` has the port `{text}`; expected 1 to {GREATEST_PORT}")
