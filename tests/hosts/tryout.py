"""Make two hosts and check that they are apart; run in a private network, for a test.

python -m tests.hosts.tryout DIRECTORY
"""

import json
import socket
import subprocess
import sys
from pathlib import Path

from narthex._base import Backoff
from narthex_stack.processes.service import Service
from tests.hosts.machines import Host, make_hosts

PORT = 8000
POLL = Backoff(first_s=0.02, greatest_s=0.1)


def answers(address: str) -> bool:
    """Whether something accepts connections at an address."""
    try:
        socket.create_connection((address, PORT), timeout=0.5).close()
    except OSError:
        return False
    return True


def sees(host: Host, path: Path) -> bool:
    """Whether a file exists for a host."""
    return subprocess.run(host.command("test", "-e", str(path)), check=False).returncode == 0


def main() -> None:
    """Print what was seen, as JSON."""
    one, other = make_hosts(Path(sys.argv[1]), ("one", "other"))
    mark = one.disk / "mark"
    mark.touch()
    service = Service(
        name="files",
        group="files",
        command=(sys.executable, "-m", "http.server", str(PORT), "--bind", one.address),
        cwd=one.disk,
        probe=lambda: None,
    )
    one.start(service)
    seen = {
        "reached": POLL.until(lambda: answers(one.address), within_s=20.0),
        "not on the other host": not answers(other.address),
        "its own disk": sees(one, mark),
        "not the disk of the other": not sees(other, mark),
    }
    one.cut()
    seen["cut off"] = not answers(one.address)
    one.join()
    seen["joined"] = POLL.until(lambda: answers(one.address), within_s=20.0)
    seen["slowed"] = bool(one.slow()) and answers(one.address)
    one.unslow()
    seen["killed"] = one.lose() > 0 and POLL.until(lambda: not answers(one.address), within_s=5.0)
    seen["disk lost"] = not any(one.disk.iterdir())
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
