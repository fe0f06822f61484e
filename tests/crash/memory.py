"""A PostgreSQL for one run, of which nothing is kept: where it can be, not even a disk is asked."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narthex_stack import PostgresServer, postgres_server

MEMORY = Path("/dev/shm")


@contextmanager
def server_in_memory() -> Iterator[tuple[PostgresServer, Path]]:
    """Run the server; give it and its home, which goes with it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        home = Path(name)
        # Root's PostgreSQL runs as another account. One that is kept out has its data on a disk.
        home.chmod(0o755)
        with postgres_server(home) as server:
            yield server, home
