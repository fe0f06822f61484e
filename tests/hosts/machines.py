"""Hosts on one machine: each has a network, an address and a disk of its own.

A host is a network namespace, joined by a virtual cable to a bridge, and a mount namespace in which
the disks of the others are empty. It needs root and the programs of iproute2 and util-linux.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from narthex._base import Backoff
from narthex._processes import ProcessGroup, dying_with_parent, running_processes
from narthex_stack.processes.service import Service

BRIDGE = "switch"
NETWORK = "10.77.0"
OUTSIDE = f"{NETWORK}.254"
"""The address of the caller on the network of the hosts."""

SLOW = ("netem", "delay", "40ms", "10ms", "loss", "1%")
NARROW = ("tbf", "rate", "2mbit", "burst", "16kb", "latency", "400ms")
"""For kernels without `netem`: packets wait for their turn."""

_POLL = Backoff(first_s=0.02, greatest_s=0.1)
_SETTLE_S = 20.0


class UnavailableError(RuntimeError):
    """This machine cannot have hosts of its own."""


def why_unavailable() -> str:
    """Return why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "hosts need root"
    missing = [name for name in ("ip", "tc", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"`{missing[0]}` is not installed; run `apt-get install iproute2 util-linux`"
    try:
        run("unshare", "--net", "--mount", "ip", "link", "add", BRIDGE, "type", "bridge")
    except UnavailableError as error:
        return str(error)
    return ""


def in_private_network(arguments: Sequence[str]) -> int:
    """Run this Python with arguments in namespaces of its own, which end with it."""
    command = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    return subprocess.run((*command, sys.executable, *arguments), check=False).returncode


def run(*command: str) -> str:
    """Run a program; return its output.

    Raises:
        UnavailableError: It failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"`{' '.join(command)}`: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@attrs.frozen(kw_only=True)
class Host:
    """One host.

    Attributes:
        disk: Its disk, at the same path for the caller and the host; empty for other hosts.
        holder: The process that holds its namespaces.
    """

    name: str
    address: str
    disk: Path
    holder: ProcessGroup

    @property
    def _cable(self) -> str:
        return f"cable-{self.name}"

    def command(self, *command: str) -> tuple[str, ...]:
        """Return a command line that runs the command on this host."""
        place = f"/proc/{self.holder.pid}/ns"
        return ("nsenter", f"--net={place}/net", f"--mount={place}/mnt", "--", *command)

    def start(self, service: Service) -> ProcessGroup:
        """Start a service on this host, as an operator does; its log is on the disk."""
        service.prepare()
        command = dying_with_parent(
            service.command, number=service.stop_signal, account=service.account
        )
        return ProcessGroup.start(
            self.command(*command),
            environment={**os.environ, **service.environment},
            log=self.disk / f"{service.name}.log",
            cwd=service.cwd,
        )

    def cut(self) -> None:
        """Cut the cable."""
        run("ip", "link", "set", self._cable, "down")

    def join(self) -> None:
        """Join the cable again, at its full speed."""
        run("ip", "link", "set", self._cable, "up")
        subprocess.run(
            ("tc", "qdisc", "del", "dev", self._cable, "root"), capture_output=True, check=False
        )

    def slow(self) -> str:
        """Slow the cable in both directions; return how."""
        ends: tuple[Callable[..., tuple[str, ...]], ...] = (lambda *c: c, self.command)
        devices = (self._cable, "eth0")
        for kind in (SLOW, NARROW):
            try:
                for end, device in zip(ends, devices, strict=True):
                    run(*end("tc", "qdisc", "replace", "dev", device, "root", *kind))
            except UnavailableError:
                continue
            return " ".join(kind)
        raise UnavailableError("the kernel has neither `netem` nor `tbf`")

    def unslow(self) -> None:
        """End the slowness."""
        run("tc", "qdisc", "del", "dev", self._cable, "root")
        run(*self.command("tc", "qdisc", "del", "dev", "eth0", "root"))

    def has(self, pid: int) -> bool:
        """Whether a process runs on this host."""
        return _network_of(pid) == _network_of(self.holder.pid)

    def lose(self) -> int:
        """Kill all processes of this host and delete its disk; return how many were killed."""
        killed = 0
        for process in running_processes():
            pid = process.process.pid
            if pid != self.holder.pid and self.has(pid):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        for path in self.disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return killed


def _network_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def make_hosts(directory: Path, names: Sequence[str]) -> tuple[Host, ...]:
    """Make the switch and the hosts; they end with this process's own namespaces."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{OUTSIDE}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    disks = [directory / name for name in names]
    for disk in disks:
        disk.mkdir(mode=0o700, parents=True)
    return tuple(
        _make_host(name, disk, number, hidden=[other for other in disks if other != disk])
        for number, (name, disk) in enumerate(zip(names, disks, strict=True), start=1)
    )


def _make_host(name: str, disk: Path, number: int, *, hidden: Sequence[Path]) -> Host:
    mounts = "".join(f"mount -t tmpfs none '{other}' && " for other in hidden)
    ready = disk / ".ready"
    holder = ProcessGroup.start(
        ("unshare", "--net", "--mount", "sh", "-c", f"{mounts}touch '{ready}' && exec sleep inf"),
        environment=dict(os.environ),
    )
    if not _POLL.until(ready.exists, within_s=_SETTLE_S):
        raise UnavailableError(f"host `{name}` did not start: {holder.ending}")
    host = Host(name=name, address=f"{NETWORK}.{number}", disk=disk, holder=holder)
    cable, place = f"cable-{name}", str(holder.pid)
    run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", place)
    run("ip", "link", "set", cable, "master", BRIDGE)
    run("ip", "link", "set", cable, "up")
    run(*host.command("ip", "link", "set", "lo", "up"))
    run(*host.command("ip", "addr", "add", f"{host.address}/24", "dev", "eth0"))
    run(*host.command("ip", "link", "set", "eth0", "up"))
    return host
