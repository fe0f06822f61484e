"""A server of this process behind a real socket, as commands and browsers call it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from narthex_server.web.bounded_http import BoundedHttp

STARTS_S = 30.0


@contextmanager
def listening(
    app: ASGIApp, port: int, *, http: type[BoundedHttp] = BoundedHttp, has_tasks: bool = True
) -> Iterator[None]:
    """Serve an application on a port of this machine, with or without its background tasks."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=port,
            http=http,
            lifespan="on" if has_tasks else "off",
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    ends_at = time.monotonic() + STARTS_S
    while not server.started and time.monotonic() < ends_at:
        thread.join(0.02)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
