"""Only one module knows FastAPI's errors, and only one reads the application's services."""

import re
from pathlib import Path

import narthex_server

SERVER = Path(narthex_server.__file__).parent


def _places(pattern: str) -> set[str]:
    return {
        path.relative_to(SERVER).as_posix()
        for path in SERVER.rglob("*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"))
    }


def test_only_the_error_responses_know_http_exceptions() -> None:
    assert _places(r"\bHTTPException\b") == {"web/error_responses.py"}


def test_routes_get_the_services_by_injection() -> None:
    reading = _places(r"\.state\.services\b")

    assert reading == {"app.py", "services/container.py"}
