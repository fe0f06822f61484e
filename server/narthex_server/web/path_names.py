"""Answers name directories of the server by their settings, and never by their paths.

Errors of engines and stores have paths: of histories, of spines, of indexes. They are for the
operator's logs. An author reads `$NARTHEX_HISTORY_DIR/nx_…` instead.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narthex._base import Json
from narthex.settings import Settings

_PLACES: Final = (
    "index_dir",
    "history_dir",
    "checkpoint_dir",
    "snapshot_dir",
    "files_root",
    "definitions_root",
    "jars_dir",
    "secrets_dir",
    "policy_file",
    "alerts_file",
    "sso_file",
    "control_log_heads",
    "spark_conf",
    "spark_secret_file",
    "ca_file",
    "run_job",
)
"""The settings, besides the home, that name a place of the platform."""

_TOLD: Final = frozenset(
    {
        "detail",
        "err_msg",
        "error",
        "errors",
        "hint",
        "last_error",
        "message",
        "progress",
        "reason",
        "waits_for",
        "why",
    }
)
"""The keys below which JSON has messages for people; the texts below other keys may be rows."""


@attrs.frozen
class PathNames:
    """The names of the directories and files of an installation.

    Attributes:
        names: The name of each path; what is below the home has the name of that.
    """

    names: Mapping[str, str]
    _paths: re.Pattern[str] = attrs.field(
        init=False,
        default=attrs.Factory(lambda names: _pattern_of(names.names), takes_self=True),
    )

    @classmethod
    def of(cls, settings: Settings) -> "PathNames":
        """Name the places that the settings have, on this machine or in a bucket."""
        home = str(settings.home)
        found = {home: "$NARTHEX_HOME"}
        for setting in _PLACES:
            path = str(getattr(settings, setting)).rstrip("/")
            is_place = "://" in path or Path(path).is_absolute()
            if path and is_place and not Path(path).is_relative_to(home):
                found[path] = f"$NARTHEX_{setting.upper()}"
        return cls(found)

    def in_text(self, text: str) -> str:
        """Return a text with the names in place of the paths."""
        return self._paths.sub(lambda found: self.names[found[0]], text)

    def in_json(self, answer: Json, *, is_told: bool = False) -> Json:
        """Return JSON with the names in place of the paths in its messages."""
        match answer:
            case str():
                return self.in_text(answer) if is_told else answer
            case list():
                return [self.in_json(item, is_told=is_told) for item in answer]
            case dict():
                return {
                    key: self.in_json(value, is_told=is_told or key in _TOLD)
                    for key, value in answer.items()
                }
            case _:
                return answer

    def in_body(self, body: bytes, content_type: str) -> bytes:
        """Return the body of a response with the names in place of the paths."""
        if not any(path.encode() in body for path in self.names):
            return body
        if not content_type.startswith("application/json"):
            return self.in_text(body.decode(errors="surrogateescape")).encode(
                errors="surrogateescape"
            )
        answer = self.in_json(json.loads(body))
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def _pattern_of(names: Mapping[str, str]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(map(re.escape, longest_first))})(?![\\w-])")


class NamedPaths:
    """ASGI middleware that names the directories of the server in what an application answers."""

    def __init__(self, app: ASGIApp, *, names: PathNames) -> None:
        """Wrap an application."""
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a response in several parts is sent as it is."""
        start: Message | None = None

        async def named(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                begun, start = start, None
                if not message.get("more_body"):
                    begun, message = _named(self._names, begun, message)
                await send(begun)
            await send(message)

        await self._app(scope, receive, named if scope["type"] == "http" else send)


def _named(names: PathNames, start: Message, message: Message) -> tuple[Message, Message]:
    headers: Mapping[bytes, bytes] = dict(start["headers"])
    before = message.get("body", b"")
    body = names.in_body(before, headers.get(b"content-type", b"").decode("latin-1"))
    if body is before:
        return start, message
    length = str(len(body)).encode()
    changed = [
        (name, length if name == b"content-length" else value) for name, value in start["headers"]
    ]
    return {**start, "headers": changed}, {**message, "body": body}
