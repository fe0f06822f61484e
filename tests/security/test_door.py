"""Requests without a token cost the server no work, and no truncated body reaches a route."""

import hashlib
import json
import os
import pty
import socket
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from narthex._base.json_depth import GREATEST_DEPTH, is_deeper
from narthex._formats.wire import decode_commit
from narthex._ir.entities import Definitions
from narthex._server_calls.transport import digest_of
from narthex.cli import make_app
from narthex.errors import ArgumentsUnfit, RecordNotUnderstood
from narthex_server.web.request_limits import (
    GREATEST_BODY_BYTES,
    GREATEST_HEAD_BYTES,
    judge_json,
)
from tests.security.conftest import Listening
from tests.server.calling import TestClient
from tests.server.conftest import TOKEN, House
from tests.server.driving import deploy
from tests.server.shop import payload, shop_definitions

LINEAR_S = 3.0
"""Far more than one pass over 16 MiB takes; a quadratic check takes hours."""
ANSWER_S = 10.0
EMPTY = Definitions(datasets=(), featuresets=())


def naive_depth(body: bytes) -> int:
    """Count as a parser does, byte by byte."""
    depth = deepest = 0
    is_text = is_escaped = False
    for byte in body:
        if is_text:
            is_escaped, is_text = (
                not is_escaped and byte == ord("\\"),
                is_escaped or byte != ord('"'),
            )
        elif byte == ord('"'):
            is_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


@pytest.mark.parametrize(
    "unit", [b'\\"', b"[", b'"', b"[]", b"{}", b'""[[', b"\\", b'"[', b'{"a":1},', b'[\\"', b"]"]
)
def test_the_depth_of_the_largest_body_is_found_in_one_pass(unit: bytes) -> None:
    body = (unit * (GREATEST_BODY_BYTES // len(unit) + 1))[:GREATEST_BODY_BYTES]
    began = time.process_time()

    is_deeper(body, GREATEST_DEPTH)

    assert time.process_time() - began < LINEAR_S


@given(
    st.recursive(
        st.text(alphabet='[]{}"\\a\n') | st.integers() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=3), inner, max_size=3)
        ),
        max_leaves=20,
    ),
    st.integers(0, 6),
)
def test_depth_is_what_a_parser_counts(value: object, limit: int) -> None:
    body = json.dumps(value).encode()

    assert is_deeper(body, limit) is (naive_depth(body) > limit)


def test_depth_is_counted_across_the_chunks_of_a_long_body() -> None:
    texts = b'"' + b"[" * (3 << 20) + b'"'
    deep = b"[" + texts + b"," + b"[" * GREATEST_DEPTH

    assert not is_deeper(deep[:-1], GREATEST_DEPTH)
    assert is_deeper(deep, GREATEST_DEPTH)


@pytest.mark.parametrize(
    ("body", "is_taken"),
    [
        (b'"\\ud83d\\ude00"', True),
        (b'"\\ud83d"', False),
        (b'"\\ude00\\ud83d"', False),
        (b'{"\\uDC00": 1}', False),
        (b'"\\\\ud83d"', True),
        (b'"\\\\\\ud83d"', False),
        (b'"\xed\xa0\x80"', False),
        ("[1]".encode("utf-16"), False),
        ("[1]".encode("utf-16-le"), False),
        ("[1]".encode("utf-32-be"), False),
        (b"\xff", False),
    ],
)
def test_a_body_is_whole_text_of_one_encoding(body: bytes, is_taken: bool) -> None:
    assert (judge_json(body, nul=True) is None) is is_taken


def test_nul_is_taken_in_rows_and_refused_elsewhere() -> None:
    assert judge_json(b'"\\u0000"', nul=True) is None
    assert judge_json(b'"\\u0000"', nul=False) is not None
    assert judge_json(b'"\\\\u0000"', nul=False) is None


def head(method: str, path: str, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: narthex"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def say(port: int, *parts: bytes, cut: bool = False) -> bytes:
    """Send bytes, and return what comes back until the other end closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        for part in parts:
            connection.sendall(part)
        if cut:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while got := connection.recv(1 << 16):
            found += got
        return found


def answer_to(port: int, *parts: bytes) -> bytes:
    """Send bytes, and return the first that come back."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        for part in parts:
            connection.sendall(part)
        return connection.recv(1 << 16)


@pytest.mark.postgres
def test_a_body_without_a_token_is_not_read(quick_door: Listening) -> None:
    """Only the head was sent: an answer means that the server did not wait for the body."""
    size = str(GREATEST_BODY_BYTES)
    for authorization in ("", "Bearer nx_wrong"):
        told = answer_to(
            quick_door.port,
            head("POST", "/api/v1/log", content_length=size, authorization=authorization),
        )
        assert told.startswith(b"HTTP/1.1 401 "), told


@pytest.mark.postgres
def test_a_token_without_the_right_is_refused_before_the_body_is_read(
    quick_door: Listening,
) -> None:
    quick_door.house.ledger.tokens.put("nx_reader", name="reader", scopes=("reader",))

    told = answer_to(
        quick_door.port,
        head("POST", "/api/v1/log", content_length="100", authorization="Bearer nx_reader"),
    )

    assert told.startswith(b"HTTP/1.1 403 "), told


@pytest.mark.postgres
def test_sizes_are_checked_first(quick_door: Listening) -> None:
    large = str(GREATEST_BODY_BYTES + 1)

    assert answer_to(quick_door.port, head("POST", "/api/v1/log", content_length=large)).startswith(
        b"HTTP/1.1 413 "
    )
    for path in ("/console/sign-in", "/healthz"):
        method = "POST" if "sign" in path else "GET"
        told = answer_to(quick_door.port, head(method, path, content_length="20000"))
        assert told.startswith(b"HTTP/1.1 413 "), told
    assert answer_to(
        quick_door.port, head("GET", "/healthz", x_filler="a" * GREATEST_HEAD_BYTES)
    ).startswith(b"HTTP/1.1 431 ")


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream", ""])
def test_depth_is_checked_for_every_content_type(house: House, kind: str) -> None:
    deep = b"[" * (GREATEST_DEPTH + 1)

    answer = house.client.post("/api/v1/log", content=deep, headers={"content-type": kind})

    assert answer.status_code == 400
    assert "deeper" in answer.json()["err_msg"]


def cuts(size: int) -> list[int]:
    """Choose where to cut: around both ends, and all along between."""
    return sorted({0, 1, 2, *range(size - 8, size), *range(3, size, max(1, size // 40))})


@pytest.mark.postgres
def test_a_truncated_commit_deploys_nothing(quick_door: Listening) -> None:
    body = payload(shop_definitions())
    bearer = f"Bearer {TOKEN}"
    sized = head("POST", "/api/v1/commit", content_length=str(len(body)), authorization=bearer)
    chunked = head(
        "POST",
        "/api/v1/commit",
        transfer_encoding="chunked",
        content_digest=digest_of(body),
        authorization=bearer,
    )
    for cut in cuts(len(body)):
        part = body[:cut]
        assert say(quick_door.port, sized, part, cut=True) == b""
        chunk = f"{len(part):x}\r\n".encode() + part + b"\r\n" if part else b""
        assert say(quick_door.port, chunked, chunk, cut=True) == b""

    assert quick_door.house.ledger.commits.newest() == ()


@pytest.mark.postgres
def test_a_part_of_a_commit_that_claims_to_be_whole_is_refused(house: House) -> None:
    body = payload(shop_definitions())
    for cut in cuts(len(body)):
        part = body[:cut]
        for headers in (
            {"content-digest": digest_of(body)},
            {"content-digest": f"sha-512=:{b64encode(hashlib.sha512(body).digest()).decode()}:"},
            {},
        ):
            answer = house.client.post("/api/v1/commit", content=part, headers=headers)
            assert answer.status_code == 400, answer.text

    assert house.ledger.commits.newest() == ()


def test_no_part_of_a_commit_is_a_commit() -> None:
    body = payload(shop_definitions())

    assert decode_commit(body).definitions == shop_definitions()
    for cut in range(len(body)):
        with pytest.raises(RecordNotUnderstood):
            decode_commit(body[:cut])


@pytest.mark.postgres
def test_a_commit_without_length_and_digest_is_refused(house: House) -> None:
    body = payload(shop_definitions())

    answer = house.client.post("/api/v1/commit", content=iter([body]))

    assert answer.status_code == 411
    assert "content-length" in answer.json()["err_msg"]
    assert house.ledger.commits.newest() == ()


@pytest.mark.postgres
@pytest.mark.parametrize("digest", ["sha-256=abc", "sha-256=:AAAA:", "sha-256=:é:", "nonsense"])
def test_a_digest_that_is_none_or_is_of_other_bytes_is_refused(house: House, digest: str) -> None:
    answer = house.client.post(
        "/api/v1/log", content=b"{}", headers={"content-digest": digest.encode()}
    )

    assert answer.status_code == 400
    assert "content-digest" in answer.json()["err_msg"]


@pytest.mark.postgres
def test_a_commit_that_empties_a_branch_asks_for_confirmation(house: House) -> None:
    first = deploy(house.client, shop_definitions())

    def commit(**parameters: str) -> tuple[int, str]:
        answer = house.client.post("/api/v1/commit", content=payload(EMPTY), params=parameters)
        return answer.status_code, answer.text

    status, told = commit()
    shown_status, _ = commit(preview="true")
    assert [str(one.commit_id) for one in house.ledger.commits.newest()] == [first]
    confirmed, _ = commit(confirm_empty="true")

    assert (status, shown_status, confirmed) == (409, 200, 202)
    assert "removes all 4 datasets and featuresets of branch `main`" in told
    assert "narthex commit --yes" in told
    assert len(house.ledger.commits.newest()) == 2


@pytest.mark.postgres
def test_the_command_removes_definitions_only_with_confirmation(
    quick_door: Listening, tmp_path: Path
) -> None:
    deploy(quick_door.house.client, shop_definitions())
    file = tmp_path / "nothing.py"
    file.write_text("")
    place = ["--url", f"http://127.0.0.1:{quick_door.port}", "--token", TOKEN, "--no-wait"]

    refused = CliRunner().invoke(make_app(), ["commit", str(file), *place])
    kept = len(quick_door.house.ledger.commits.newest())
    done = CliRunner().invoke(make_app(), ["commit", str(file), "--yes", *place])

    told = str(refused.exception)
    assert isinstance(refused.exception, ArgumentsUnfit)
    assert "- dataset `Orders` v1" in told
    assert "- featureset `Buyer`" in told
    assert kept == 1
    assert done.exit_code == 0, done.output
    assert len(quick_door.house.ledger.commits.newest()) == 2


@pytest.mark.postgres
@pytest.mark.parametrize(("answer", "commits"), [(b"n\n", 1), (b"y\n", 2)])
def test_a_person_is_asked_before_definitions_are_removed(
    quick_door: Listening, tmp_path: Path, answer: bytes, commits: int
) -> None:
    deploy(quick_door.house.client, shop_definitions())
    file = tmp_path / "another.py"
    file.write_text("")
    place = ["--url", f"http://127.0.0.1:{quick_door.port}", "--token", TOKEN, "--no-wait"]
    terminal, stdin = pty.openpty()

    os.write(terminal, answer)
    done = subprocess.run(
        [sys.executable, "-m", "narthex.cli", "commit", str(file), *place],
        stdin=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )

    os.close(terminal)
    os.close(stdin)
    assert b"Remove it? [y/N]" in done.stdout + done.stderr
    assert b"- dataset `Users` v1" in done.stderr
    assert done.returncode == (0 if commits == 2 else 1), done.stderr
    assert len(quick_door.house.ledger.commits.newest()) == commits


@pytest.mark.postgres
def test_an_empty_branch_takes_an_empty_commit(house: House) -> None:
    answer = house.client.post("/api/v1/commit", content=payload(EMPTY))

    assert answer.status_code == 202, answer.text


@pytest.mark.slow
@pytest.mark.postgres
def test_a_slow_head_and_a_slow_body_end_the_connection(quick_door: Listening) -> None:
    bearer = f"Bearer {TOKEN}"
    whole = head("POST", "/api/v1/log", content_length="100", authorization=bearer)

    assert say(quick_door.port) == b""
    assert say(quick_door.port, whole[:40]) == b""
    late = say(quick_door.port, whole, b'{"webhook"')
    assert late.startswith(b"HTTP/1.1 408 "), late
    unread = say(quick_door.port, head("POST", "/api/v1/log", content_length="100"))
    assert unread.startswith(b"HTTP/1.1 401 "), unread
    idle = say(quick_door.port, head("GET", "/healthz"), b"\r\n" * 10)
    assert idle.startswith(b"HTTP/1.1 200 "), idle


@pytest.mark.postgres
def test_an_endless_head_ends_the_connection(quick_door: Listening) -> None:
    with pytest.raises(OSError, match=r"reset|pipe"):
        say(quick_door.port, b"GET /healthz HTTP/1.1\r\nx-filler: ", *[b"a" * (1 << 16)] * 1_000)


@pytest.mark.postgres
def test_an_unexpected_failure_is_recorded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("narthex_server.security.tokens.make_token", failing)
    client = TestClient(
        house.client.app,
        headers={"authorization": f"Bearer {TOKEN}"},
        raise_server_exceptions=False,
    )

    answer = client.post("/api/v1/tokens", json={"name": "ann", "scopes": ["reader"]})

    assert answer.status_code == 500
    (entry,) = [one.entry for one in house.ledger.control_log.entries()]
    assert entry["path"] == "/tokens"
    assert entry["status"] == 500
