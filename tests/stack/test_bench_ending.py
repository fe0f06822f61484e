"""A platform that a benchmark started ends with it, however the benchmark ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_HOLD = """
import sys
from pathlib import Path
from bench.ending import ending_with_us
with ending_with_us(Path(sys.argv[1])):
    print("holding", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_the_platform_of_a_benchmark_ends_with_it(number: int | None, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"holding\n"
    assert home.is_dir()

    assert holder.stdin is not None
    if number is not None:
        os.kill(holder.pid, number)
    holder.stdin.close()
    holder.wait()

    # The cleaning process has the same pipe, so the pipe closes when it is done.
    holder.stdout.read()
    holder.stdout.close()
    assert not home.exists()
