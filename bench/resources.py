"""The resources of a platform's processes by kind: memory, open files, threads and CPU."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import psutil

from narthex_stack.processes.leftovers import OPERATOR_HOME

MIB = 1 << 20
WORKERS = "narthex_spark_apps.platform.worker_daemon"
"""Python workers of Spark; the worker of a standing task has the name of its task."""
_JAVA_MAIN = re.compile(r"^[a-z]+(\.[A-Za-z]\w*)+$")


@attrs.define
class Resources:
    """The resources of all processes of one role.

    Attributes:
        memory_mib: Proportional set size: a shared page counts once in total.
        own_mib: The part without file mappings: maps of an index or a log grow with their files.
        cpu_s: Of the running processes; it decreases when one ends.
    """

    processes: int = 0
    memory_mib: float = 0.0
    own_mib: float = 0.0
    files: int = 0
    threads: int = 0
    cpu_s: float = 0.0


def held(home: Path) -> dict[str, Resources]:
    """Measure the processes of an installation and their descendants."""
    found: dict[str, Resources] = {}
    for process in _family(home):
        try:
            with process.oneshot():
                role = role_of(process.cmdline())
                role = process.name() if role == WORKERS else role
                memory = _pages(process.pid)
                files, threads = process.num_fds(), process.num_threads()
                cpu = process.cpu_times()
        except (psutil.Error, OSError):
            # It ended while it was looked at.
            continue
        sum_of = found.setdefault(role, Resources())
        sum_of.processes += 1
        sum_of.memory_mib += memory["Pss"] / MIB
        sum_of.own_mib += memory["Pss_Anon"] / MIB
        sum_of.files += files
        sum_of.threads += threads
        sum_of.cpu_s += cpu.user + cpu.system
    return found


def _pages(pid: int) -> dict[str, int]:
    """Return the bytes of a process's pages by kind, as the kernel sums them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {name.rstrip(":"): int(kib) * 1024 for name, kib, *_ in fields}


def _family(home: Path) -> Iterator[psutil.Process]:
    processes = {process.pid: process for process in psutil.process_iter(["ppid"])}
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.info["ppid"], []).append(pid)
    waiting = [pid for pid, process in processes.items() if _is_marked(process, home)]
    known: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in known:
            known.add(pid)
            waiting += children.get(pid, ())
            yield processes[pid]


def _is_marked(process: psutil.Process, home: Path) -> bool:
    try:
        environment: Mapping[str, str] = process.environ()
    except psutil.Error:
        return False
    return environment.get(OPERATOR_HOME) == str(home)


def role_of(command: Sequence[str]) -> str:
    """Return the role of a process: a Python module, a Java class, else its program.

    The title that a process gave itself is one text; its first two words identify it.
    """
    if not command:
        return "unnamed"
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    program = Path(command[0].split()[0]).name
    if program == "java":
        return next((one for one in command[1:] if _JAVA_MAIN.match(one)), program)
    scripts = [Path(one).name for one in command[1:2] if program.startswith("python")]
    return scripts[0] if scripts else " ".join([program, *command[0].split()[1:2]])


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line; 0 for fewer than two instants."""
    known = list(points)
    if not known:
        return 0.0
    mean_x = sum(x for x, _ in known) / len(known)
    mean_y = sum(y for _, y in known) / len(known)
    spread = sum((x - mean_x) ** 2 for x, _ in known)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in known) / spread


def disk_mib(home: Path) -> float:
    """Return the size of the files of a directory."""
    total = 0
    for path in home.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            # It was deleted while it was looked at.
            continue
    return total / MIB
