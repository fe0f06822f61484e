"""Probes of services: None if a service is healthy, else what is wrong with it."""

import datetime as dt
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path

from narthex_stack.machine.files import Json

_ANSWER_S = 4.0

# The environment's proxy is for the internet, not for this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answer_of(url: str) -> tuple[int, bytes]:
    """Return the status and body of a URL; status 0 and the reason if there is no answer."""
    try:
        with _OPENER.open(url, timeout=_ANSWER_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()


def look_at_url(url: str) -> str | None:
    """Return what is wrong with a service that should answer 200."""
    status, body = answer_of(url)
    if status == HTTPStatus.OK:
        return None
    return f"{url} answers {status}: {body[:200].decode(errors='replace')}"


def sandbox_of(url: str) -> str:
    """Return a server's report of the sandbox of authors' code; empty if it does not answer."""
    status, body = answer_of(url)
    found: Json = json.loads(body) if status == HTTPStatus.OK else None
    return str(found.get("sandbox", "")) if isinstance(found, dict) else ""


def look_at_component(url: str, component: str) -> str | None:
    """Return what is wrong with one of Airflow's processes, according to the API server."""
    status, body = answer_of(url)
    if status != HTTPStatus.OK:
        return f"{url} answers {status}: {body[:200].decode(errors='replace')}"
    found: Json = json.loads(body)
    part = found.get(component) if isinstance(found, dict) else None
    state = part.get("status") if isinstance(part, dict) else None
    return None if state == "healthy" else f"Airflow calls its {component} {state or 'absent'}"


def look_at_heartbeat(path: Path, *, now: dt.datetime, within: dt.timedelta) -> str | None:
    """Return what is wrong with a process that should touch a file."""
    try:
        touched = dt.datetime.fromtimestamp(path.stat().st_mtime, tz=dt.UTC)
    except FileNotFoundError:
        return "it has not written its first heartbeat"
    age = now - touched
    return None if age < within else f"its last heartbeat is {age.total_seconds():.0f} s old"
