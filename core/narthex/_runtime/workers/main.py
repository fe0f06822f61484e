"""The program of a worker, which executes author code.

`narthex._runtime.workers.process` starts it by path. It leaves the machine's namespaces and forks
once, while it has loaded only Python: the child serves, the parent waits for it. The kernel kills
the child when the parent ends, and the parent when the thread that started it ends.
"""

import json
import os
import select
import sys

ARGUMENTS = json.loads(sys.argv[1])
sys.path[:] = [*ARGUMENTS["stdlib"], *ARGUMENTS["path"]]

from narthex._runtime.confinement.kernel import die_with_parent  # noqa: E402 (the path is set just above)
from narthex._runtime.confinement.layers import Layers  # noqa: E402


def stay_with(parent: int) -> None:
    """Die with the parent; exit now if the parent has already ended."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def wait_for(child: int, write_end: int) -> None:
    """Close all descriptors except the write end until the child ends."""
    os.closerange(0, write_end)
    os.waitpid(child, 0)
    os._exit(0)


def main() -> None:
    """Fork a confined worker and serve in it."""
    stay_with(ARGUMENTS["parent"])
    layers = Layers(ARGUMENTS["without"])
    layers.leave()
    stay_with(ARGUMENTS["parent"])
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        wait_for(child, write_end)
    os.close(write_end)
    layers.shut_in(ARGUMENTS["readable"])

    from narthex._runtime.workers.serving import Pipes, serve, warm  # noqa: PLC0415 (it loads all)

    warm()
    pipes = Pipes.alone(read_end)
    layers.lock(ARGUMENTS["readable"], ARGUMENTS["memory_bytes"])
    # The parent may have ended before the kernel was asked to watch it.
    if select.select([read_end], [], [], 0)[0]:
        os._exit(0)
    os.close(read_end)
    serve(pipes, layers.granted)


if __name__ == "__main__":
    main()
