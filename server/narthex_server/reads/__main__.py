"""`python -m narthex_server.reads`: a process that only answers reads.

Any number of them may run, on any machine that reaches the indexes. Those of one machine share a
port, among which the kernel distributes connections. It needs the ledger when it starts; after
that, reads go on without any other process.
"""

import contextlib
import functools
import gc
import os
import socket
import sys
from typing import Final
from urllib.parse import urlsplit

import structlog
import uvicorn
from typing_extensions import override

from narthex._runtime.workers import Compartments
from narthex.settings import REDUCED, NotInstalledError, Settings, load_settings, make_places
from narthex_ledger import TENANT, Ledger, LedgerError, Verifier
from narthex_server.errors import ServerError
from narthex_server.reads.handler import ReadHandler
from narthex_server.reads.pages import ReadPages
from narthex_server.reads.services import ReadServices
from narthex_server.refused_starts import REFUSED_STARTS, refused_start
from narthex_server.security.known_tokens import KnownTokens
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.compartments import MOST_WORKERS
from narthex_server.services.meters import Meters
from narthex_server.services.process_samples import process_loop
from narthex_server.services.query_log import QueryLog
from narthex_server.services.read_instants import reads_loop
from narthex_server.services.shared_sources import SharedSources
from narthex_server.tracing import TracedRequests, Tracing, start_tracing
from narthex_server.web.bounded_http import IDLE_S, BoundedHttp, bound_warnings
from narthex_server.web.refused_calls import RefusedCalls
from narthex_stores import (
    STORE_FORMATS,
    EndOffsetReader,
    LogProducer,
    TopicAdapter,
    open_log,
    platform_broker,
)

log = structlog.get_logger()

SERVICE: Final = "narthex-reads"
"""The name of this process in traces."""

SWITCH_S: Final = 0.001
"""How long a thread computes before another one gets its turn.

While one prepares a new commit, an answer waits for it that long each time: at the interpreter's
default of 5 ms, answers take 5 ms longer.
"""


class _Server(uvicorn.Server):
    """Sends the spans that are left after its last answer; a signal then ends the process."""

    def __init__(self, config: uvicorn.Config, *, tracing: Tracing | None) -> None:
        super().__init__(config)
        self._tracing = tracing

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._tracing is not None:
            self._tracing.end()


def connect(settings: Settings) -> ReadServices:
    """Connect a process that reads.

    Raises:
        KeyFileError: No server has made the keys of the installation.
        LedgerError: The ledger does not answer, or is of another release.
    """
    ledger = Ledger(settings.ledger_dsn, verifier=Verifier.load(settings.verifying_key))
    ledger.installation.require_current(STORE_FORMATS)
    tenant = ledger.installation.ensure_tenant(TENANT)
    return ReadServices(
        settings=settings,
        ledger=ledger,
        tenant=tenant,
        tokens=KnownTokens(ledger=ledger, settings=settings),
        snapshots=SnapshotCache(ledger, settings, tenant=tenant),
        shared=SharedSources(ledger, tenant=tenant, policy_file=settings.policy_file),
        workers=Compartments(most=MOST_WORKERS, is_reduced=settings.sandbox == REDUCED),
        query_log=QueryLog(
            install_id=settings.install_id,
            producer=LogProducer(platform_broker(settings)),
            topics=TopicAdapter.connect(platform_broker(settings)),
        ),
        meters=Meters(),
        ends=EndOffsetReader(platform_broker(settings)),
    )


def load_snapshots(services: ReadServices) -> None:
    """Load what the active branches serve, so that their first readers need no ledger."""
    for view in services.ledger.branches.all(services.tenant):
        if view.state == "active" and view.serving_commit_id is not None:
            try:
                services.snapshots.serving(view.name)
            except (ServerError, LedgerError) as error:
                log.warning("branch_not_loaded", branch=view.name, error=str(error))
    with contextlib.suppress(LedgerError):  # the follower tries again
        services.snapshots.refresh()


def log_refused(refused: RefusedCalls) -> None:
    """Log the refused calls of each address since the last time."""
    for row in refused.take():
        log.warning("reads_refused", **row)


def serve(settings: Settings) -> None:
    """Answer reads until the process is stopped."""
    address = urlsplit(settings.reads_url)
    if address.hostname is None or address.port is None:
        raise NotInstalledError(
            "`NARTHEX_READS_URL` names no address; set it to one such as `http://127.0.0.1:9100`"
        )
    open_log(settings)
    tracing = start_tracing(os.environ, service=SERVICE)
    services = connect(settings)
    load_snapshots(services)
    follower = services.follower()
    follower.start()
    samples = process_loop(
        services.ledger, services.meters, f"reads:{socket.gethostname()}:{os.getpid()}"
    )
    if settings.metrics_kept_days:
        samples.start()
    reads = reads_loop(services.ledger, services.tenant, services.meters.reads)
    reads.start()
    services.workers.check()
    refused = RefusedCalls()
    handler = ReadHandler(services, otherwise=ReadPages(services), refused=refused)
    refusals = refused.loop(functools.partial(log_refused, refused))
    refusals.start()
    # Imported objects are never freed, so the garbage collector need not scan them.
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    config = uvicorn.Config(
        handler if tracing is None else TracedRequests(handler, tracing=tracing),
        http=BoundedHttp,
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
    )
    _run(_Server(config, tracing=tracing), host=address.hostname, port=address.port)
    refusals.stop()
    samples.stop()
    follower.stop()
    handler.close()
    reads.stop()
    services.close()


def _run(server: _Server, *, host: str, port: int) -> None:
    """Run a server on a port that all of this machine share."""
    bound_warnings()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        server.run(sockets=[listener])


def main() -> int:
    """Serve; exit with 1 and a message if the process cannot start."""
    try:
        settings = load_settings()
        make_places(settings)
        serve(settings)
    except REFUSED_STARTS as error:
        sys.stderr.write(refused_start("reads", error) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
