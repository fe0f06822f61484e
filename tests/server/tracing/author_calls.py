"""A program of an author who traces: it calls a server in a span of its own, named `author`."""

import contextlib
import sys
from datetime import UTC, datetime

import pandas as pd
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from narthex.client import Client
from narthex.errors import DefinitionErrors
from tests.server.shop import shop


def main(call: str, url: str, token: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    client = Client(url, token)
    with trace.get_tracer("author").start_as_current_span("author"):
        match call:
            case "query":
                cards = pd.DataFrame({"Card.card": ["a", "b"]})
                client.query(["Card.card"], ["Card.length"], cards, as_of=datetime.now(UTC))
            case "refused":
                with contextlib.suppress(DefinitionErrors):
                    client.query(
                        ["Card.card"], ["Card.nothing"], pd.DataFrame({"Card.card": ["a"]})
                    )
            case "commit":
                datasets, featuresets = shop()
                client.commit("a shop", datasets, featuresets, wait=False)
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
