"""Where the servers of an index store are, and how to connect to them."""

from typing import Final
from urllib.parse import urlsplit

import attrs
from typing_extensions import override

from narthex_stores.errors import PermanentError

_SCHEMES: Final = {"redis": False, "rediss": True}
_PORT: Final = 6379


@attrs.frozen(kw_only=True)
class StoreAddress:
    """The address of one server; a server of a cluster knows the others.

    Attributes:
        is_encrypted: Whether to connect by TLS; the server's certificate is always verified.
        user: The account; empty for the default one.
        password: Its password; empty without one; never logged.
        ca_file: Certificates of the authorities that sign the servers' certificates; empty for
            those that the machine trusts.
    """

    host: str
    port: int
    is_encrypted: bool
    user: str
    password: str = attrs.field(repr=False)
    ca_file: str

    @override
    def __str__(self) -> str:
        scheme = "rediss" if self.is_encrypted else "redis"
        return f"{scheme}://{self.host}:{self.port}"


def parse_address(url: str, *, password: str = "", ca_file: str = "") -> StoreAddress:
    """Read `redis://[user@]host[:port]`, or `rediss://` for TLS.

    Raises:
        PermanentError: It is another URL, or it contains a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError as error:
        raise PermanentError(f"an index store's URL is not valid: {error}") from None
    if parts.password is not None:
        # The URL is not repeated, because errors are logged.
        raise PermanentError(
            "the index store's URL contains a password, and URLs are logged; "
            "set `NARTHEX_INDEX_STORE_PASSWORD` instead"
        )
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise PermanentError(f"`{url}` is not `redis://host:port` or `rediss://host:port`")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise PermanentError(
            f"`{url}` has more than an address; leave out what follows `{parts.netloc}`"
        )
    return StoreAddress(
        host=parts.hostname,
        port=port,
        is_encrypted=_SCHEMES[parts.scheme],
        user=parts.username or "",
        password=password,
        ca_file=ca_file,
    )
