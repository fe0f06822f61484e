"""The delivery of messages: by HTTP and by e-mail.

Receivers are addresses that the operator has configured, so the egress rules of authors do not
apply to them. Addresses and logins may be secrets: no error and no line of the log has them. A
delivery has an end, however slowly a receiver answers: the messages to others wait for it.
"""

import asyncio
import contextlib
import datetime as dt
import logging
import os
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Final, assert_never

import attrs
import httpx
from typing_extensions import override

from narthex._base import Json
from narthex_server.alerts.configuration import (
    AlertmanagerReceiver,
    EmailReceiver,
    Receiver,
    SlackReceiver,
    WebhookReceiver,
)
from narthex_server.alerts.messages import (
    AlertMessage,
    alertmanager_alerts,
    email_of,
    slack_text,
)

TIMEOUT_S: Final = 10.0
"""How long a receiver may be silent."""
WHOLE_S: Final = 30.0
"""How long a delivery takes at most."""

_REPEATS: Final = 3
"""Alertmanager ends an alert that is not posted for this many intervals."""

# It logs the address of each call, which may be a secret.
logging.getLogger("httpx").setLevel(logging.WARNING)


class NotDelivered(Exception):
    """A receiver did not take a message; the text says why, without a secret."""


@attrs.frozen(kw_only=True)
class Sender:
    """Sends messages to receivers; safe to share between threads.

    Attributes:
        secret: Returns the value of a secret by its name, or raises NotDelivered.
        ca_file: The authorities that certificates of receivers are verified with; empty for those
            that the machine trusts.
    """

    secret: Callable[[str], str]
    ca_file: str = ""

    def send(
        self, receiver: Receiver, message: AlertMessage, *, repeat_every: dt.timedelta
    ) -> None:
        """Deliver a message; a receiver that got it twice can see that by its id.

        Raises:
            NotDelivered: The receiver did not take it.
        """
        match receiver:
            case WebhookReceiver():
                self._post(receiver, message.plain())
            case SlackReceiver():
                self._post(receiver, {"text": slack_text(message)})
            case AlertmanagerReceiver():
                until = dt.datetime.now(dt.UTC) + _REPEATS * repeat_every
                self._post(receiver, alertmanager_alerts(message, until=until), "/api/v2/alerts")
            case EmailReceiver():
                self._mail(receiver, message)
            case _:
                assert_never(receiver)

    def _post(
        self,
        receiver: WebhookReceiver | SlackReceiver | AlertmanagerReceiver,
        body: Json,
        path: str = "",
    ) -> None:
        url = receiver.url or self.secret(receiver.url_secret or "").strip()
        headers = {}
        if receiver.token_secret:
            headers["authorization"] = f"Bearer {self.secret(receiver.token_secret).strip()}"
        login = None
        if isinstance(receiver, AlertmanagerReceiver) and receiver.password_secret:
            login = httpx.BasicAuth(receiver.user, self.secret(receiver.password_secret))
        whole = url.rstrip("/") + path if path else url
        try:
            status = asyncio.run(self._status(whole, body, headers, login))
        except TimeoutError:
            raise NotDelivered(f"it did not answer within {WHOLE_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise NotDelivered(_reason(error)) from None
        if not 200 <= status < 300:  # noqa: PLR2004 - the statuses of success
            raise NotDelivered(f"it answered with status {status}")

    async def _status(
        self, url: str, body: Json, headers: Mapping[str, str], login: httpx.Auth | None
    ) -> int:
        """Return the status of an answer; its body is not read."""
        async with (
            asyncio.timeout(WHOLE_S),
            httpx.AsyncClient(verify=self._context(), timeout=TIMEOUT_S) as client,
            client.stream("POST", url, json=body, headers=headers, auth=login) as answer,
        ):
            return answer.status_code

    def _mail(self, receiver: EmailReceiver, message: AlertMessage) -> None:
        password = self.secret(receiver.password_secret) if receiver.password_secret else ""
        sent_at = dt.datetime.now(dt.UTC)
        mail = email_of(message, sender=receiver.sender, to=receiver.to, sent_at=sent_at)
        try:
            with self._connected(receiver) as server:
                if password:
                    server.login(receiver.user, password)
                server.send_message(mail)
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"{type(error).__name__}, code {error.smtp_code}") from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise NotDelivered(_reason(error)) from None

    def _connected(self, receiver: EmailReceiver) -> smtplib.SMTP:
        place = receiver.host, receiver.port
        if receiver.security == "tls":
            return _BoundedTlsMail(*place, timeout=TIMEOUT_S, context=self._context())
        server = _BoundedMail(*place, timeout=TIMEOUT_S)
        if receiver.security == "starttls":
            try:
                server.starttls(context=self._context())
            except (smtplib.SMTPException, OSError):
                server.close()
                raise
        return server

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file or None)


class _BoundedMail(smtplib.SMTP):
    """A connection to a mail server that ends by itself."""

    _end: threading.Timer | None = None
    _copy: socket.socket | None = None

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        self._copy = found.dup()
        self._end = threading.Timer(WHOLE_S, _cut, (self._copy,))
        self._end.daemon = True
        self._end.start()
        return found

    @override
    def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
        if self._copy is not None:
            self._copy.close()
        super().close()


class _BoundedTlsMail(smtplib.SMTP_SSL, _BoundedMail):
    """The same, encrypted from the first byte."""


def _cut(connection: socket.socket) -> None:
    """End a connection, whoever waits for it."""
    with contextlib.suppress(OSError), connection:
        connection.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    """Return the kind of an error, and the system's reason: the text may have an address."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.errno):
        cause = cause.__cause__ or cause.__context__
    if not isinstance(cause, OSError) or not cause.errno:
        return type(error).__name__
    is_own = isinstance(cause, ssl.SSLError | socket.gaierror)  # with numbers of their own
    return f"{type(error).__name__}: {cause.strerror if is_own else os.strerror(cause.errno)}"
