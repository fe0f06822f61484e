"""The connection of a standing task on a cluster: proven, encrypted, bounded."""

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import attrs
import pytest

from narthex_spark_apps.jobs.task_listener import TcpListener
from narthex_spark_apps.supervision.runner import task_channel
from narthex_spark_apps.supervision.runner.task_channel import Channel, TcpAddress

HOST = "127.0.0.1"
WITHIN_S = 60.0


@contextmanager
def connected() -> Iterator[tuple[Channel, Channel]]:
    """Yield the driver's and the task's end of a connection."""
    listener = TcpListener(bind=HOST, host=HOST)
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(listener.accept, lambda: True)
        task = listener.address.connect()
        driver = accepting.result(WITHIN_S)
    assert driver is not None
    yield driver, task
    for end in (driver, task):
        end.close()


def test_long_lines_travel_in_both_directions_at_once() -> None:
    line = "ä" * 3_000_000
    with connected() as (driver, task), ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(end.send, line) for end in (driver, task)]
        received = [pool.submit(next, end.lines()) for end in (driver, task)]

        assert [found.result(WITHIN_S) == line for found in received] == [True, True]
        assert [done.result(WITHIN_S) for done in sent] == [None, None]


def test_short_lines_arrive_in_order_and_one_by_one() -> None:
    with connected() as (driver, task):
        for number in range(500):
            task.send(str(number))
        lines = driver.lines()
        received = [next(lines) for _ in range(500)]

        assert received == [str(number) for number in range(500)]


def test_a_task_learns_that_its_driver_ends_and_its_last_lines_still_arrive() -> None:
    with connected() as (driver, task):
        task.send("before")
        driver.end()
        assert list(task.lines()) == []
        task.send("after")
        before_its_end = driver.has_peer_ended
        task.close()

        assert list(driver.lines()) == ["before", "after"]
        assert (before_its_end, driver.has_peer_ended) == (False, True)


def test_a_program_without_the_key_is_refused_and_the_task_still_connects() -> None:
    listener = TcpListener(bind=HOST, host=HOST)
    other = TcpListener(bind=HOST, host=HOST)
    stranger = attrs.evolve(other.address, port=listener.address.port)
    with ThreadPoolExecutor(2) as pool:
        accepting = pool.submit(listener.accept, lambda: True)
        with socket.create_connection((HOST, listener.address.port)) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.connect()
        with pytest.raises((ssl.SSLError, OSError)):
            connect_without_certificate(listener.address)
        task = listener.address.connect()
        driver = accepting.result(WITHIN_S)
        assert driver is not None
        task.send("it is me")

        assert next(driver.lines()) == "it is me"
    for one in (driver, task, listener, other):
        one.close()


def connect_without_certificate(address: TcpAddress) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((address.host, address.port)) as plain,
        context.wrap_socket(plain) as encrypted,
    ):
        # In TLS 1.3 the refusal follows the client's part of the handshake.
        assert encrypted.recv(1) == b""
        raise ConnectionError("closed without a word")


def test_a_listener_that_is_closed_accepts_nothing() -> None:
    listener = TcpListener(bind=HOST, host=HOST)
    waiting = threading.Event()

    def is_wanted() -> bool:
        waiting.set()
        return True

    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(listener.accept, is_wanted)
        assert waiting.wait(WITHIN_S)
        listener.close()

        assert accepting.result(WITHIN_S) is None
    with pytest.raises(OSError, match="refused"):
        listener.address.connect()


def test_a_line_over_the_bound_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected() as (driver, task):
        monkeypatch.setattr(task_channel, "GREATEST_LINE", 100)
        task.send("x" * 101)

        assert list(driver.lines()) == []
        assert not driver.has_peer_ended


def test_neither_the_key_nor_the_certificate_is_shown() -> None:
    listener = TcpListener(bind=HOST, host=HOST)
    shown = repr(listener.address)
    listener.close()

    assert "BEGIN" not in shown
    assert b"PRIVATE KEY" in listener.address.pem
