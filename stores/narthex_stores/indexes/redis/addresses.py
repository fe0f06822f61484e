"""Where the servers of an index store are, and how to connect to them."""

import re
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
from typing_extensions import override

from narthex_stores.errors import PermanentError

_SCHEMES: Final = {"redis": False, "rediss": True}
_PORT: Final = 6379
_REPLICAS: Final = re.compile(r"(?:replicas=([0-9]{1,2}))?")

HostAndPort: TypeAlias = tuple[str, int]


@attrs.frozen(kw_only=True)
class StoreAddress:
    """The address of an index store.

    Attributes:
        servers: One server, or some of a cluster, which know the others; the first that replies is
            asked.
        is_encrypted: Whether to connect by TLS; the server's certificate is always verified.
        user: The account; empty for the default one.
        password: Its password; empty without one; never logged.
        ca_file: Certificates of the authorities that sign the servers' certificates; empty for
            those that the machine trusts.
        replicas: How many replicas of a server must have a write before it counts.
    """

    servers: tuple[HostAndPort, ...]
    is_encrypted: bool
    user: str
    password: str = attrs.field(repr=False)
    ca_file: str
    replicas: int = 0

    @override
    def __str__(self) -> str:
        scheme = "rediss" if self.is_encrypted else "redis"
        servers = ",".join(f"{host}:{port}" for host, port in self.servers)
        return f"{scheme}://{servers}{f'?replicas={self.replicas}' if self.replicas else ''}"


def parse_address(url: str, *, password: str = "", ca_file: str = "") -> StoreAddress:
    """Read `redis://[user@]host[:port][,host[:port]…][?replicas=N]`, or `rediss://` for TLS.

    Raises:
        PermanentError: It is another URL, or it contains a password.
    """
    try:
        parts = urlsplit(url)
        account, _, places = parts.netloc.rpartition("@")
        user, _, refused = account.partition(":")
        servers = tuple(map(_host_and_port, places.split(",")))
    except ValueError as error:
        raise PermanentError(f"an index store's URL is not valid: {error}") from None
    if refused:
        # The URL is not repeated, because errors are logged.
        raise PermanentError(
            "the index store's URL contains a password, and URLs are logged; "
            "set `NARTHEX_INDEX_STORE_PASSWORD` instead"
        )
    if parts.scheme not in _SCHEMES or not all(host for host, _ in servers):
        raise PermanentError(f"`{url}` is not `redis://host:port` or `rediss://host:port`")
    replicas = _REPLICAS.fullmatch(parts.query)
    if parts.path.strip("/") or replicas is None or parts.fragment:
        raise PermanentError(
            f"`{url}` has more than an address and `?replicas=N`; leave out the rest of what "
            f"follows `{parts.netloc}`"
        )
    return StoreAddress(
        servers=servers,
        is_encrypted=_SCHEMES[parts.scheme],
        user=user,
        password=password,
        ca_file=ca_file,
        replicas=int(replicas[1] or 0),
    )


def _host_and_port(text: str) -> HostAndPort:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "", parts.port or _PORT
