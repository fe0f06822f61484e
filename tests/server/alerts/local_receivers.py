"""Receivers on this machine: an HTTP server and a mail server that store what they get."""

import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCALHOST = "127.0.0.1"


@attrs.frozen(kw_only=True)
class Call:
    """A call that an HTTP receiver got."""

    path: str
    headers: dict[str, str]
    body: Any


@attrs.define
class HttpReceiver:
    """An HTTP server: its address, what it got, and the statuses of its next answers."""

    url: str = ""
    calls: list[Call] = attrs.field(factory=list)
    statuses: list[int] = attrs.field(factory=list)
    """The statuses of the next answers; without one, 200."""


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    """Run an HTTP server while the block runs."""
    found = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.calls.append(Call(path=self.path, headers=headers, body=json.loads(body)))
            status = found.statuses.pop(0) if found.statuses else 200
            self.send_response(status)
            if status in {301, 302, 307, 308}:
                self.send_header("location", f"{found.url}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((LOCALHOST, 0), Handler)
    found.url = f"http://{LOCALHOST}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@attrs.define
class MailReceiver:
    """A mail server: its port, its certificate, and the mails that it got."""

    port: int
    ca_file: Path
    mails: list[EmailMessage] = attrs.field(factory=list)
    recipients: list[list[str]] = attrs.field(factory=list)
    logins: list[str] = attrs.field(factory=list)
    were_encrypted: list[bool] = attrs.field(factory=list)


@contextmanager
def mail_receiver(home: Path, *, password: str) -> Iterator[MailReceiver]:
    """Run a mail server that wants STARTTLS and a login of `ann`, while the block runs."""
    certificate, key = make_certificate(home)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    found = MailReceiver(port=0, ca_file=certificate)

    class Handler:
        async def handle_DATA(  # noqa: N802 - aiosmtpd's name
            self, _server: object, session: Session, envelope: Envelope
        ) -> str:
            content = envelope.content
            assert isinstance(content, bytes)
            mail = message_from_bytes(content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            found.mails.append(mail)
            found.recipients.append([*envelope.rcpt_tos])
            found.were_encrypted.append(session.ssl is not None)
            return "250 stored"

    def authenticate(
        _server: object, _session: object, _envelope: object, _how: str, given: object
    ) -> AuthResult:
        assert isinstance(given, LoginPassword)
        found.logins.append(given.login.decode())
        is_right = (given.login, given.password) == (b"ann", password.encode())
        return AuthResult(success=is_right, handled=False)

    controller = Controller(
        Handler(),
        hostname=LOCALHOST,
        port=_free_port(),
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticate,
    )
    controller.start()
    found.port = controller.port
    try:
        yield found
    finally:
        controller.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        return int(probe.getsockname()[1])


def make_certificate(home: Path, *, ends_at: dt.datetime | None = None) -> tuple[Path, Path]:
    """Write a certificate of this machine that signs itself, and its key; return their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(ends_at or now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOCALHOST))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = home / "receiver.pem", home / "receiver.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file
