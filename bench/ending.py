"""Stop a platform when the process that started it is gone, for whatever reason.

    python -m bench.ending HOME

waits until its standard input is closed, which a kill -9 of the starter does too; then it stops
the services of HOME and deletes the directory.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ending_with_us(home: Path) -> Iterator[None]:
    """Stop a platform at the end of the block, or earlier if this process ends."""
    command = [sys.executable, "-m", "bench.ending", str(home)]
    # A session of its own: what is sent to our group, by a terminal or by make, must not reach it.
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        watcher.communicate()


def main() -> None:
    """Wait until the starter has ended, then stop the platform and delete its home."""
    home = Path(sys.argv[1])
    sys.stdin.buffer.read()
    environment = {**os.environ, "NARTHEX_HOME": str(home)}
    command = [sys.executable, "-m", "narthex.cli", "down", "--wipe"]
    subprocess.run(command, check=False, env=environment)
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
