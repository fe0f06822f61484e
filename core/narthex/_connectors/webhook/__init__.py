"""Webhooks: rows that clients push over HTTP."""

from typing import Final

import attrs

from narthex._connectors.kinds import (
    ROWS_AND_ENVELOPES,
    ConnectorKind,
    EndpointPlace,
    Input,
    PolicyFacts,
    SourceKind,
)
from narthex._connectors.parts import Parts
from narthex._ir.connections import WebhookEndpoint

__all__ = ["KIND", "Webhook"]


@attrs.frozen
class Webhook:
    """Rows that are pushed over HTTP with `client.log`.

    Attributes:
        retention: Refused, as the platform keeps pushed rows for ever: a new version of a dataset
            is computed from all of them.
    """

    name: str
    retention: str | None = None

    def endpoint(self, endpoint: str) -> WebhookEndpoint:
        """Declare one endpoint; several datasets can read from it.

        Raises:
            DefinitionErrors: A name is empty, or there is a retention.
        """
        parts = Parts("Webhook")
        if self.retention is not None:
            parts.unsupported("retention", "the rows that are pushed are kept for ever")
        made = WebhookEndpoint(
            webhook=parts.name(self.name), endpoint=parts.text(endpoint, "`endpoint`")
        )
        parts.report()
        return made


def _place(endpoint: WebhookEndpoint) -> EndpointPlace:
    return EndpointPlace(webhook=endpoint.webhook, endpoint=endpoint.endpoint)


KIND: Final = ConnectorKind(
    name="webhook",
    title="Webhook",
    text="Rows that clients push to `/log`, as JSON objects. Several datasets can read one "
    "endpoint.",
    record=WebhookEndpoint,
    declared_by=((Webhook, "endpoint"),),
    policy=PolicyFacts(
        text="No server; the endpoint by the rules `[[endpoints]]`.",
        outlets=lambda _, __: (),
        place=_place,
    ),
    source=SourceKind(
        identity=lambda endpoint: f"webhook:{endpoint.webhook}/{endpoint.endpoint}",
        input=Input.INGEST,
        reason="parses and checks each row on arrival",
        cdc=ROWS_AND_ENVELOPES,
    ),
)
