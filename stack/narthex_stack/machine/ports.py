"""The ports of an installation: chosen once among free ones, then stored."""

import socket
from collections.abc import Iterable
from pathlib import Path

from narthex_stack.machine.files import load_object, store_json

HOST = "127.0.0.1"
NAMES = (
    "postgres",
    "kafka",
    "kafka_controller",
    "airflow",
    "server",
    "reads",
)


def is_listening(port: int, *, host: str = HOST, within_s: float = 1.0) -> bool:
    """Return whether a process accepts connections on a port."""
    try:
        with socket.create_connection((host, port), timeout=within_s):
            return True
    except OSError:
        return False


def free_ports(number: int) -> tuple[int, ...]:
    """Return different ports on which no process listens."""
    held = [socket.socket() for _ in range(number)]
    try:
        for each in held:
            each.bind((HOST, 0))
        return tuple(each.getsockname()[1] for each in held)
    finally:
        for each in held:
            each.close()


def chosen_ports(path: Path, *, names: Iterable[str] = NAMES) -> dict[str, int]:
    """Assign each name its port: the stored one, else a free one, which is then stored."""
    stored = {name: port for name, port in load_object(path).items() if isinstance(port, int)}
    missing = [name for name in names if name not in stored]
    if missing:
        stored |= dict(zip(missing, free_ports(len(missing)), strict=True))
        store_json(path, dict(stored))
    return stored
