"""Servers without durability, on a file system in memory where the machine has one."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from narthex_stack.servers.local_servers import PostgresServer, postgres_server

MEMORY: Final = Path("/dev/shm")

NEEDED_BYTES: Final = 4 << 30
"""The free space that servers of a whole run of tests need; containers often have 64 MB."""


def memory_dir() -> Path | None:
    """Return a directory in memory; None if the machine has none that is large enough."""
    is_there = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= NEEDED_BYTES
    return MEMORY if is_there else None


@contextmanager
def home_in_memory() -> Iterator[Path]:
    """Make a directory that other accounts may enter; delete it at the end."""
    with tempfile.TemporaryDirectory(prefix="narthex-tests-", dir=memory_dir()) as name:
        home = Path(name)
        # Root's PostgreSQL runs as another account. Without access, its data is on a disk.
        home.chmod(0o755)
        yield home


@contextmanager
def server_in_memory() -> Iterator[tuple[PostgresServer, Path]]:
    """Run a PostgreSQL; return it and its home, which goes with it."""
    with home_in_memory() as home, postgres_server(home) as server:
        yield server, home
