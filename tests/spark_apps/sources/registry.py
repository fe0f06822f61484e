"""A schema registry for tests: a real HTTP server with Confluent's documented routes.

No registry is packaged for Python; this one answers the two questions of who reads records, asks
for a name and a password, and keeps its schemas in memory.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from typing_extensions import override


class _Handler(BaseHTTPRequestHandler):
    schemas: ClassVar[dict[int, dict[str, Any]]] = {}
    subjects: ClassVar[dict[tuple[str, int], int]] = {}
    asked: ClassVar[list[str]] = []
    guard: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if self.headers.get("Authorization") != self.guard:
            return self._answer(401, {"error_code": 40101, "message": "Unauthorized"})
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                found = self.schemas.get(self.subjects.get((subject, int(version)), -1))
            case _:
                found = None
        if found is None:
            return self._answer(404, {"error_code": 40403, "message": "Schema not found"})
        if found.get("schemaType") == "PROTOBUF" and query.get("format") != ["serialized"]:
            return self._answer(200, found | {"schema": 'syntax = "proto3"; // its text'})
        return self._answer(200, found)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Registry:
    """A running registry: its address, and its schemas."""

    def __init__(self, url: str, handler: type[_Handler]) -> None:
        self.url = url
        self._handler = handler

    @property
    def asked(self) -> list[str]:
        return self._handler.asked

    def keep(
        self,
        number: int,
        schema: str,
        *,
        kind: str = "AVRO",
        subject: str = "",
        references: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Keep a schema; its references are pairs of a name and a subject, at version 1."""
        body: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = [
                {"name": name, "subject": referred, "version": 1} for name, referred in references
            ]
        self._handler.schemas[number] = body
        if subject:
            self._handler.subjects[subject, 1] = number


@contextmanager
def running_registry(username: str, password: str) -> Iterator[Registry]:
    """Run a registry that lets one account in."""
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    parts: dict[str, Any] = {"schemas": {}, "subjects": {}, "asked": [], "guard": f"Basic {pair}"}
    handler = type("Handler", (_Handler,), parts)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Registry(f"http://127.0.0.1:{server.server_port}", handler)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
