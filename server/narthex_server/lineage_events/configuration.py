"""A client with the standard configuration of OpenLineage, within this project's limits."""

import logging
import sys
from pathlib import Path
from typing import Final

import yaml
from openlineage.client import OpenLineageClient
from openlineage.client.transport.console import ConsoleTransport
from openlineage.client.transport.file import FileTransport
from openlineage.client.transport.http import HttpTransport

from narthex_server.lineage_events.environment import FILE, configuration_file

GREATEST_TIMEOUT_S: Final = 5.0
"""How long a receiver may take to accept a connection, and to send each part of its answer."""

_CONSOLE: Final = logging.getLogger("openlineage.client.transport.console")

# Its messages may have the text of the configuration, which has secrets.
logging.getLogger("openlineage").setLevel(logging.CRITICAL + 1)


class LineageUnconfigured(Exception):
    """The configuration of OpenLineage cannot be used; the text says why, without its values."""


def make_client(home: Path) -> OpenLineageClient:
    """Return a client with the configuration of the environment and of the installation's home.

    It tries once, waits 5 s at most, follows no redirect, and adds neither variables of the
    environment nor a repository to events, whatever the configuration says.

    Raises:
        LineageUnconfigured: The configuration has a mistake, or a transport that confirms nothing.
    """
    try:
        client = OpenLineageClient(config=_file_content(configuration_file(home)))
        _check(client)
    except LineageUnconfigured:
        raise
    except Exception as error:  # noqa: BLE001 - the client raises errors of all kinds
        raise LineageUnconfigured(
            f"the configuration of OpenLineage cannot be used ({type(error).__name__}); "
            f"correct `{FILE}` or the variables `OPENLINEAGE_…`"
        ) from None
    return client


def _check(client: OpenLineageClient) -> None:
    """Bound what a client does.

    Raises:
        LineageUnconfigured: It has no transport, or one that confirms nothing.
    """
    facets = client.config.facets
    # The server's own environment has its tokens, and its directory is not that of a definition.
    facets.environment_variables = []
    facets.source_code_location.disabled = True
    match client.transport:
        case HttpTransport() as http:
            _limit(http)
        case ConsoleTransport() if (client.config.transport or {}).get("type") != "console":
            raise LineageUnconfigured(
                "the configuration of OpenLineage names no receiver; set `OPENLINEAGE_URL`, or "
                f"write `transport:` into `{FILE}`"
            )
        case ConsoleTransport():
            _print_events()
        case FileTransport():
            pass
        case other:
            raise LineageUnconfigured(
                f"the transport `{other.kind}` does not say whether an event was stored; "
                "configure one of the types `http`, `file` and `console`"
            )


def _file_content(path: Path) -> dict[str, object]:
    try:
        content: object = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise LineageUnconfigured(
            f"`{FILE}` cannot be read as YAML ({type(error).__name__}); correct it"
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise LineageUnconfigured(f"`{FILE}` is not a mapping; begin it with `transport:`")
    return content


def _limit(transport: HttpTransport) -> None:
    """Make a transport try once, for a short time: the loop repeats, and knows what is next."""
    transport.timeout = min(transport.timeout, GREATEST_TIMEOUT_S)
    transport.config.retry = {"total": 0}
    # A redirect, as to a page to sign in, would otherwise count as a delivery.
    transport.session.max_redirects = 0


def _print_events() -> None:
    """Print the events of the console's transport, which it logs."""
    if not _CONSOLE.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        _CONSOLE.addHandler(handler)
        _CONSOLE.propagate = False
        _CONSOLE.setLevel(logging.INFO)
