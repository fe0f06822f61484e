"""The program that worker processes are forked from; it never runs author code itself.

`narthex._runtime.template` starts it by path. At the first request it loads the libraries
of author code; each request forks a worker, which is confined before it receives any code. A worker
leaves the machine's namespaces and forks once more: the child serves, the parent, called guard
here, ends it when the process that asked for it has ended.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

ARGUMENTS = json.loads(sys.argv[1])
sys.path[:] = [*ARGUMENTS["stdlib"], *ARGUMENTS["path"]]

from narthex._runtime.confinement.kernel import die_with_parent  # noqa: E402 (the path is set just above)
from narthex._runtime.confinement.layers import Layers  # noqa: E402

REQUEST_BYTES: Final = 1 << 16
_DESCRIPTORS: Final = 4


def main() -> None:
    """Fork a worker for each request, until no process can send one any more."""
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(2, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes ended workers
    is_loaded = False
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, _DESCRIPTORS)
        if not message:
            return
        if not is_loaded:
            load()
            is_loaded = True
        template = os.getpid()
        if os.fork() == 0:
            try:
                requests.close()
                start(json.loads(message), descriptors, template)
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def load() -> None:
    """Load the libraries, whose memory all workers share."""
    from narthex._runtime.workers.serving import warm  # noqa: PLC0415 (it loads all)

    warm()
    gc.freeze()


def start(request: dict[str, object], descriptors: Sequence[int], template: int) -> None:
    """Become a worker: its pipes, a socket for the identity of its guard, and its user."""
    calls, answers, reply, user = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(calls, 0)
    os.dup2(answers, 1)
    stay_with(template)
    with socket.socket(fileno=reply) as replies:
        guard = os.pidfd_open(os.getpid())
        socket.send_fds(replies, [b"guard"], [guard])
        os.close(guard)
    layers = Layers(_texts(request["without"]))
    layers.leave()
    stay_with(template)  # a change of account has undone it
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        guard_until_over(child, write_end, user)
    os.close(write_end)
    serve_confined(layers, request, read_end)


def stay_with(parent: int) -> None:
    """Die with the parent; exit now if the parent has already ended."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def guard_until_over(child: int, write_end: int, user: int) -> None:
    """Wait until the child or the process that uses it ends; end the other and this process."""
    served = os.pidfd_open(child)
    kept = sorted({write_end, user, served})
    for before, after in zip([-1, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(before + 1, after)
    watch = select.poll()
    watch.register(served, select.POLLIN)
    watch.register(user, select.POLLIN)
    watch.poll()
    try:
        signal.pidfd_send_signal(served, signal.SIGKILL)
    finally:
        os._exit(0)


def serve_confined(layers: Layers, request: dict[str, object], read_end: int) -> None:
    """Put up the remaining layers, then serve calls until the input ends."""
    import numpy as np  # noqa: PLC0415 (loaded already)

    from narthex._runtime.workers.serving import Pipes, serve  # noqa: PLC0415

    readable = _texts(request["readable"])
    memory_bytes = request["memory_bytes"]
    assert isinstance(memory_bytes, int)  # noqa: S101 (for the type check)
    layers.shut_in(readable)
    os.chdir(str(request["directory"]))
    pipes = Pipes.alone(read_end)
    np.random.seed()  # noqa: NPY002 (else all workers would draw the same numbers)
    layers.lock(readable, memory_bytes)
    # Nothing of these packages has run so far, and after the libraries they replace none of them.
    sys.path += [str(request["packages"])] if request["packages"] else []
    # The guard may have ended before the kernel was asked to watch it.
    if select.select([read_end], [], [], 0)[0]:
        os._exit(0)
    os.close(read_end)
    serve(pipes, layers.granted)


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


if __name__ == "__main__":
    main()
