"""Messages reach real receivers on this machine, and no error or log line has a secret."""

import datetime as dt
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from narthex_server.alerts.configuration import Receiver
from narthex_server.alerts.messages import AlertMessage, read_message, slack_text
from narthex_server.alerts.notices import plain_alert
from narthex_server.alerts.observations import certificates_in
from narthex_server.alerts.receivers import NotDelivered, Sender
from tests.server.alerts.alert_values import HOUR, MINUTE, NOON, alert
from tests.server.alerts.local_receivers import (
    LOCALHOST,
    HttpReceiver,
    MailReceiver,
    http_receiver,
    mail_receiver,
    make_certificate,
)
from tests.server.raw_servers import dribbling, raw_server

PASSWORD = "hunter2-of-tests"
RECEIVER: TypeAdapter[Receiver] = TypeAdapter(Receiver)


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[MailReceiver]:
    with mail_receiver(tmp_path, password=PASSWORD) as found:
        yield found


def message(*subjects: str, resolved: tuple[str, ...] = (), branch: str = "main") -> AlertMessage:
    ended = [{**plain_alert(alert(one)), "ended_at": (NOON + HOUR).isoformat()} for one in resolved]
    content: Any = {
        "rule": "freshness",
        "branch": branch,
        "firing": [plain_alert(alert(one)) for one in subjects],
        "resolved": ended,
        "new": [*subjects],
    }
    return read_message(
        content,
        message_id=UUID(int=5),
        install_id="tests000",
        console_url="https://narthex.example.com/",
    )


def send(
    said: AlertMessage, *, secrets: dict[str, str] | None = None, ca_file: str = "", **table: Any
) -> None:
    receiver = RECEIVER.validate_python({"name": "one"} | table)
    known = secrets or {}

    def secret(name: str) -> str:
        if name not in known:
            raise NotDelivered(f"there is no secret `{name}`")
        return known[name]

    Sender(secret=secret, ca_file=ca_file).send(receiver, said, repeat_every=5 * MINUTE)


def test_a_webhook_gets_the_whole_message_as_json(http: HttpReceiver) -> None:
    send(
        message("Orders", "Users", resolved=("Spend",)),
        kind="webhook",
        url=f"{http.url}/hook",
        token_secret="hook",
        secrets={"hook": "a-token\n"},
    )

    (call,) = http.calls
    assert (call.path, call.headers["authorization"]) == ("/hook", "Bearer a-token")
    assert (call.body["id"], call.body["installation"]) == (str(UUID(int=5)), "tests000")
    assert (call.body["status"], call.body["severity"]) == ("firing", "warning")
    assert call.body["title"] == "[WARNING] freshness on branch main: 2 alerts"
    assert [(one["subject"], one["status"], one["is_new"]) for one in call.body["alerts"]] == [
        ("Orders", "firing", True),
        ("Users", "firing", True),
        ("Spend", "resolved", False),
    ]
    first = call.body["alerts"][0]
    assert first["link"] == "https://narthex.example.com/console/jobs?branch=main"
    assert (first["summary"], first["remedy"]) == ("`Orders` is stale.", "Look at its source.")
    assert (first["started_at"], first["ended_at"]) == (NOON.isoformat(), None)


def test_slack_gets_a_text_by_a_secret_address(http: HttpReceiver) -> None:
    send(
        message("Orders"),
        kind="slack",
        url_secret="slack",
        secrets={"slack": f"{http.url}/services/T0/{PASSWORD}\n"},
    )

    (call,) = http.calls
    assert call.path == f"/services/T0/{PASSWORD}"
    assert call.body["text"].splitlines() == [
        "*[WARNING] freshness on branch main: Orders*",
        "• warning: `Orders` is stale.",
        "   Look at its source. <https://narthex.example.com/console/jobs?branch=main|Open>",
    ]


def test_names_of_authors_are_not_mentions_in_slack() -> None:
    text = slack_text(message("<!channel> & <@U1>\nx"))

    assert "<!channel>" not in text
    assert "<@U1>" not in text
    assert text.splitlines()[0].endswith(": &lt;!channel&gt; &amp; &lt;@U1&gt; x*")


def test_a_text_for_people_is_bounded() -> None:
    text = slack_text(message(*(f"D{number}" for number in range(100))))

    assert text.splitlines()[-1] == "… and 80 more"
    assert len(text.splitlines()) == 42


def test_alertmanager_gets_each_alert_with_its_end(http: HttpReceiver) -> None:
    before = dt.datetime.now(dt.UTC)

    send(
        message("Orders", resolved=("Spend",)),
        kind="alertmanager",
        url=f"{http.url}/prefix/",
        user="ann",
        password_secret="am",
        secrets={"am": PASSWORD},
    )

    (call,) = http.calls
    assert call.path == "/prefix/api/v2/alerts"
    assert call.headers["authorization"].startswith("Basic ")
    fires, ended = call.body
    assert fires["labels"] == {
        "alertname": "freshness",
        "severity": "warning",
        "branch": "main",
        "subject": "Orders",
        "installation": "tests000",
    }
    assert fires["annotations"] == {
        "summary": "`Orders` is stale.",
        "description": "Look at its source.",
    }
    assert fires["generatorURL"].startswith("https://narthex.example.com/")
    ends = dt.datetime.fromisoformat(fires["endsAt"]) - before
    assert 14 * MINUTE < ends < 16 * MINUTE
    assert ended["endsAt"] == (NOON + HOUR).isoformat()


def mail_table(mail: MailReceiver, **more: object) -> dict[str, Any]:
    return {
        "kind": "email",
        "host": LOCALHOST,
        "port": mail.port,
        "user": "ann",
        "password_secret": "smtp",
        "sender": "narthex@example.com",
        "to": ["on-call@example.com", "team@example.com"],
        **more,
    }


def test_a_mail_is_sent_encrypted_with_a_login(mail: MailReceiver) -> None:
    send(
        message("Orders", resolved=("Spend",)),
        secrets={"smtp": PASSWORD},
        ca_file=str(mail.ca_file),
        **mail_table(mail),
    )

    (found,) = mail.mails
    assert (mail.logins, mail.were_encrypted) == (["ann"], [True])
    assert mail.recipients == [["on-call@example.com", "team@example.com"]]
    assert found["Subject"] == "[WARNING] freshness on branch main: Orders"
    assert found["Message-ID"] == f"<{UUID(int=5)}@example.com>"
    assert found["Auto-Submitted"] == "auto-generated"
    assert found.get_content().splitlines() == [
        "[WARNING] freshness on branch main: Orders",
        "",
        "- warning: `Orders` is stale.",
        "  Look at its source.",
        "  https://narthex.example.com/console/jobs?branch=main",
        "- resolved: `Spend` is stale.",
    ]


def test_a_name_with_line_breaks_adds_no_header(mail: MailReceiver) -> None:
    send(
        message("Orders\r\nBcc: eve@example.com"),
        secrets={"smtp": PASSWORD},
        ca_file=str(mail.ca_file),
        **mail_table(mail),
    )

    (found,) = mail.mails
    assert found["Bcc"] is None
    assert len(mail.recipients[0]) == 2


def test_a_mail_server_with_an_unknown_certificate_gets_no_password(mail: MailReceiver) -> None:
    with pytest.raises(NotDelivered, match="SSLCertVerificationError"):
        send(message("Orders"), secrets={"smtp": PASSWORD}, **mail_table(mail))

    assert (mail.logins, mail.mails) == ([], [])


@pytest.mark.parametrize("status", [307, 404, 500])
def test_only_a_status_of_success_is_a_delivery(http: HttpReceiver, status: int) -> None:
    http.statuses.append(status)

    with pytest.raises(NotDelivered, match=f"status {status}"):
        send(message("Orders"), kind="webhook", url=http.url)

    assert len(http.calls) == 1


def dribbling_mail(connection: socket.socket, ended: threading.Event) -> None:
    """Begin a greeting that does not end."""
    connection.sendall(b"220-")
    while not ended.wait(0.05):
        try:
            connection.sendall(b"x")
        except OSError:
            return


def test_a_receiver_that_answers_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages to all other receivers wait for the delivery."""
    monkeypatch.setattr("narthex_server.alerts.receivers.WHOLE_S", 1.0)
    mail = {"kind": "email", "host": LOCALHOST, "sender": "n@example.com", "to": ["a@example.com"]}
    with (
        ThreadPoolExecutor(5) as pool,
        raw_server(dribbling) as slow,
        raw_server(dribbling_mail) as slow_mail,
    ):
        port = int(slow_mail.rpartition(":")[2])
        tables: dict[str, dict[str, Any]] = {
            "webhook": {"kind": "webhook", "url": slow},
            "alertmanager": {"kind": "alertmanager", "url": slow},
            "none": mail | {"port": port, "security": "none"},
            "starttls": mail | {"port": port, "security": "starttls"},
            "tls": mail | {"port": int(slow.rpartition(":")[2]), "security": "tls"},
        }
        sent = {name: pool.submit(send, message("Orders"), **one) for name, one in tables.items()}
        done, _ = wait(sent.values(), timeout=15.0)
        waiting = [name for name, one in sent.items() if one not in done]

    assert waiting == []
    assert {type(one.exception()) for one in done} == {NotDelivered}
    assert str(sent["webhook"].exception()) == "it did not answer within 1 s"


def test_an_answer_of_any_size_is_not_read(http: HttpReceiver) -> None:
    """A receiver that answers with a gigabyte costs no memory."""

    def endless(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while not ended.is_set():
            try:
                connection.sendall(b"x" * (1 << 20))
            except OSError:
                return

    with raw_server(endless) as url:
        send(message("Orders"), kind="webhook", url=url)

    send(message("Orders"), kind="webhook", url=http.url)
    assert len(http.calls) == 1


def test_no_error_and_no_log_line_has_a_secret(
    http: HttpReceiver, mail: MailReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address = f"{http.url}/{PASSWORD}"
    http.statuses += [500]
    attempts: list[dict[str, Any]] = [
        {"kind": "slack", "url_secret": "s", "secrets": {"s": address}},
        {"kind": "slack", "url_secret": "s", "secrets": {"s": f"http://{LOCALHOST}:1/{PASSWORD}"}},
        {"kind": "slack", "url_secret": "s", "secrets": {"s": f"file:///{PASSWORD}"}},
        {"kind": "slack", "url_secret": "s", "secrets": {"s": f"http://[{PASSWORD}"}},
        {"kind": "slack", "url_secret": "s", "secrets": {"s": f"http://{PASSWORD}.invalid/"}},
        {"kind": "slack", "url_secret": "missing"},
        {"secrets": {"smtp": f"not {PASSWORD}"}, "ca_file": str(mail.ca_file)} | mail_table(mail),
        {"secrets": {"smtp": PASSWORD}} | mail_table(mail, host=LOCALHOST, port=1),
    ]
    said = []
    for attempt in attempts:
        with pytest.raises(NotDelivered) as refused:
            send(message("Orders"), **attempt)
        said.append(str(refused.value))

    assert not [text for text in (*said, caplog.text) if PASSWORD in text]
    assert said[0] == "it answered with status 500"
    assert said[1] == "ConnectError: Connection refused"
    assert said[5] == "there is no secret `missing`"
    assert said[6] == "SMTPAuthenticationError, code 535"


def test_the_certificates_of_a_file_have_their_ends(tmp_path: Path) -> None:
    ends_at = dt.datetime(2030, 1, 2, tzinfo=dt.UTC)
    certificate, key = make_certificate(tmp_path, ends_at=ends_at)

    (found,) = certificates_in(certificate)

    assert (found.name, found.ends_at) == ("receiver.pem: CN=receiver", ends_at)
    assert certificates_in(key) == ()
    assert certificates_in(tmp_path / "missing.pem") == ()
