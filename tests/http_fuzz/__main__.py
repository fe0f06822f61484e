"""`make fuzz-http`: random calls of every route, with the tokens of all roles.

    python -m tests.http_fuzz --n 20000 --seed 0

The server is a process of its own, on a real PostgreSQL and a real broker, and serves a shop. Half
of the calls are drawn from its OpenAPI document, valid and not; the others are mutations of them.
Half are made with the installation's own token. In between, valid rows are pushed. Exits with 1 if
an answer has the status 500, a call takes longer than ten seconds, an accepted row is not in its
topic, the server ends, or its memory grows by more than a tenth in the second half of the calls.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import structlog

from narthex_ledger import migrate
from narthex_stack.servers.local_servers import kafka_broker
from tests.http_fuzz.fuzzing import GREATEST_GROWTH, Fuzzer, FuzzReport
from tests.http_fuzz.serving import run_server
from tests.memory import server_in_memory

QUIET = 50


def main() -> int:
    """Fuzz a server; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.http_fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=20_000, help="the number of calls")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the calls")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    with server_in_memory() as (server, _), tempfile.TemporaryDirectory() as name:
        home = Path(name)
        dsn = server.create_database("fuzz")
        migrate(dsn)
        with (
            kafka_broker(home / "kafka") as kafka,
            run_server(home / "server", dsn=dsn, kafka=kafka) as under,
        ):
            report = Fuzzer(under=under, kafka=kafka).run(asked.n, asked.seed, tell=_tell)
    if asked.json:
        sys.stdout.write(json.dumps(report.plain()) + "\n")
    else:
        _show(report)
    return 0 if report.is_sound() and report.growth <= GREATEST_GROWTH else 1


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _show(report: FuzzReport) -> None:
    for name, value in report.plain().items():
        sys.stdout.write(f"{name}: {value}\n")


if __name__ == "__main__":
    sys.exit(main())
