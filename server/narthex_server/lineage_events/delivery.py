"""One delivery of an event to the operator's receiver."""

from typing import Final

import attrs
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from requests import HTTPError

_INVALID: Final = frozenset({400, 413, 415, 422})
"""The statuses with which a receiver refuses an event for what it is."""


class LineageNotTaken(Exception):
    """The receiver did not take an event now; the text says why, without a secret."""


class LineageRefused(Exception):
    """The receiver will never take an event; the text says why, without a secret."""


@attrs.frozen
class LineageReceiver:
    """The receiver of events that the operator configured; one thread uses it."""

    _client: OpenLineageClient

    def send(self, event: RunEvent) -> None:
        """Deliver an event.

        Raises:
            LineageNotTaken: The receiver did not take it; send it again later.
            LineageRefused: It is invalid for the receiver.
        """
        try:
            self._client.emit(event)
        except HTTPError as error:
            status = 0 if error.response is None else error.response.status_code
            said = f"it answered with status {status}"
            if status in _INVALID:
                raise LineageRefused(said) from None
            raise LineageNotTaken(said) from None
        except Exception as error:  # noqa: BLE001 - transports raise errors of all kinds
            # The text of an error may have the address, and in it a login.
            raise LineageNotTaken(type(error).__name__) from None

    def close(self) -> None:
        """Close its connections."""
        self._client.close(0)
