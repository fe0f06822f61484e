"""Servers that answer as no server should: not at all, or a little at a time."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def raw_server(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Accept connections, each served by a thread until the event is set; yield the address."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    threads: list[threading.Thread] = []

    def served(connection: socket.socket) -> None:
        with connection:
            serve(connection, ended)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=served, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join()


def silent(connection: socket.socket, ended: threading.Event) -> None:
    del connection
    ended.wait()


def dribbling(connection: socket.socket, ended: threading.Event) -> None:
    """Send the head of an answer without an end, a little at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not ended.wait(0.05):
        try:
            connection.sendall(b"x")
        except OSError:
            return
