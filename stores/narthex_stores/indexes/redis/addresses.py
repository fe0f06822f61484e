"""Where the servers of an index store are, and how to connect to them."""

from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
from typing_extensions import override

from narthex_stores.errors import PermanentError

_SCHEMES: Final = {"redis": False, "rediss": True}
_PORT: Final = 6379

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
    """

    servers: tuple[HostAndPort, ...]
    is_encrypted: bool
    user: str
    password: str = attrs.field(repr=False)
    ca_file: str

    @override
    def __str__(self) -> str:
        scheme = "rediss" if self.is_encrypted else "redis"
        return f"{scheme}://{','.join(f'{host}:{port}' for host, port in self.servers)}"


def parse_address(url: str, *, password: str = "", ca_file: str = "") -> StoreAddress:
    """Read `redis://[user@]host[:port][,host[:port]…]`, or `rediss://` for TLS.

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
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise PermanentError(
            f"`{url}` has more than an address; leave out what follows `{parts.netloc}`"
        )
    return StoreAddress(
        servers=servers,
        is_encrypted=_SCHEMES[parts.scheme],
        user=user,
        password=password,
        ca_file=ca_file,
    )


def _host_and_port(text: str) -> HostAndPort:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "", parts.port or _PORT
