import json
import socket
from pathlib import Path

from narthex_stack.machine.ports import chosen_ports, free_ports, is_listening


def test_ports_are_chosen_once_and_stay(tmp_path: Path) -> None:
    first = chosen_ports(tmp_path / "ports.json")

    second = chosen_ports(tmp_path / "ports.json")

    assert first == second
    assert len(set(first.values())) == len(first)


def test_a_name_that_is_new_gets_a_port_and_the_others_keep_theirs(tmp_path: Path) -> None:
    before = chosen_ports(tmp_path / "ports.json", names=("kafka",))

    after = chosen_ports(tmp_path / "ports.json", names=("kafka", "server"))

    assert after["kafka"] == before["kafka"]
    assert json.loads((tmp_path / "ports.json").read_text()) == after


def test_free_ports_are_different_and_unused() -> None:
    found = free_ports(20)

    assert len(set(found)) == 20
    assert not any(is_listening(port, within_s=0.2) for port in found[:3])


def test_a_listener_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_listening(server.getsockname()[1])
