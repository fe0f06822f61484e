"""Probes of services: None if a service is healthy, else what is wrong with it."""

import datetime as dt
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from narthex_stack.machine.files import Json

_ANSWER_S = 4.0

# The environment's proxy is for the internet, not for this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answer_of(url: str, *, token: str = "") -> tuple[int, bytes]:
    """Return the status and body of a URL; status 0 and the reason if there is no answer.

    Args:
        url: The URL.
        token: A bearer token to send with the request.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 (our own services)
        with _OPENER.open(request, timeout=_ANSWER_S) as answer:
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


def job_problems_of(url: str, *, token: str) -> tuple[str, ...]:
    """Return what is wrong with jobs, a line for each; empty if the server does not answer.

    Args:
        url: The address of the server's list of jobs.
        token: A token that may read it.
    """
    status, body = answer_of(url, token=token)
    found: Json = json.loads(body) if status == HTTPStatus.OK else None
    jobs = found.get("jobs") if isinstance(found, dict) else None
    listed = jobs if isinstance(jobs, list) else []
    return tuple(line for job in listed if isinstance(job, dict) for line in _job_problems(job))


def _job_problems(job: dict[str, Json]) -> Iterator[str]:
    if job.get("phase") == "failed":
        error = str(job.get("error") or "no error was reported").splitlines()[0]
        yield f"job {job.get('label')} fails: {error}"
    count = job.get("quarantined")
    if isinstance(count, int) and count > 0:
        noun = "row" if count == 1 else "rows"
        yield f"job {job.get('label')} has sent {count} {noun} to quarantine"


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
