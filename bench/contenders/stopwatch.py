"""The figures of a contender; without other packages, because environments of others use it too."""

import json
import resource
import time
from pathlib import Path


class Stopwatch:
    """CPU and wall-clock time of this process since the stopwatch was created."""

    def __init__(self) -> None:
        """Start."""
        self._began, self._cpu_began = time.monotonic(), _cpu_s()

    def print_figures(self, rows: int) -> None:
        """Print the figures as the last line; the caller checks the result."""
        figures = {
            "rows": rows,
            "cpu_s": _cpu_s() - self._cpu_began,
            "wall_s": time.monotonic() - self._began,
            "peak_mb": peak_mb("self"),
        }
        print(json.dumps(figures))


def peak_mb(process: int | str) -> float:
    """Return the greatest resident memory that a process has had, in MB."""
    # Unlike that of `getrusage`, it does not include the process that started this one.
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
