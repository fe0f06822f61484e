"""A connection to a service that can be made to hang, as to a stopped process."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs


@attrs.define
class HangingProxy:
    """Forwards TCP connections to a service; while it hangs, bytes and connections wait."""

    target: tuple[str, int]
    listener: socket.socket
    _flows: threading.Event = attrs.field(factory=threading.Event)
    _sockets: list[socket.socket] = attrs.field(factory=list)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def hang(self) -> None:
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self._flows.wait()
            service = socket.create_connection(self.target)
            self._sockets += [client, service]
            for pair in ((client, service), (service, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65_536):
                self._flows.wait()
                target.sendall(chunk)
        for each in (source, target):
            each.close()

    def close(self) -> None:
        self._flows.set()
        self.listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def hanging_proxy(host: str, port: int) -> Iterator[HangingProxy]:
    """Run a proxy of a service, which flows at first."""
    proxy = HangingProxy((host, port), socket.create_server(("127.0.0.1", 0)))
    proxy.flow()
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
