"""A PostgreSQL for one run, without durability and in memory where possible."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narthex_stack import PostgresServer, postgres_server

MEMORY = Path("/dev/shm")


@contextmanager
def server_in_memory() -> Iterator[tuple[PostgresServer, Path]]:
    """Run the server; return it and its home, which goes with it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        home = Path(name)
        # Root's PostgreSQL runs as another account. Without access, its data is on a disk.
        home.chmod(0o755)
        with postgres_server(home) as server:
            yield server, home
