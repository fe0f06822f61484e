"""Signing in by the browser: a code comes to this machine, and the server changes it to a token."""

import base64
import datetime as dt
import hashlib
import hmac
import secrets
import time
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from typing_extensions import override

from narthex._server_calls.transport import Transport
from narthex.cli.output import print_json, print_line, tell
from narthex.cli.projects.stored_tokens import StoredToken, store_token
from narthex.errors import ArgumentsUnfit

WAITS_S: Final = 600.0
"""How long a person may take in the browser."""

_REQUEST_S: Final = 10.0
_PAGE: Final = b"The command line has its code. You can close this page.\n"


class _Listener(HTTPServer):
    """Waits on this machine for the browser, which brings a code and the state of this command."""

    def __init__(self, port: int, state: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.state = state
        self.code = ""

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a request that broke off."""

    def wait(self) -> str:
        """Return the code.

        Raises:
            ArgumentsUnfit: It did not come in time.
        """
        ends_at = time.monotonic() + WAITS_S
        while not self.code and time.monotonic() < ends_at:
            self.timeout = min(1.0, WAITS_S)
            self.handle_request()
        if not self.code:
            raise ArgumentsUnfit(
                f"nobody signed in within {WAITS_S:.0f} s", hint="run `narthex login` again"
            )
        return self.code


class _Handler(BaseHTTPRequestHandler):
    timeout: ClassVar[float | None] = _REQUEST_S  # of a request that stops

    def do_GET(self) -> None:
        """Take the code, if the request has the state of this command."""
        assert isinstance(self.server, _Listener)  # noqa: S101 - which made this handler
        query = parse_qs(urlsplit(self.path).query)
        state, code = query.get("state", [""])[0], query.get("code", [""])[0]
        is_ours = hmac.compare_digest(state.encode(), self.server.state.encode())
        if is_ours and code:
            self.server.code = code
        self.send_response(200 if is_ours else 404)
        self.send_header("content-type", "text/plain")
        self.send_header("cache-control", "no-store")
        self.end_headers()
        if is_ours:
            self.wfile.write(_PAGE)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the address has the code."""


def sign_in(url: str, *, port: int, browser: bool, shown: bool, as_json: bool) -> None:
    """Sign in, and print or keep the token, as `narthex login` does.

    Raises:
        ArgumentsUnfit: No server is named, the port cannot be used, or nobody signed in in time.
    """
    if not url:
        raise ArgumentsUnfit(
            "no server is named", hint="pass `--url`, or choose a profile with a `url`"
        )
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    try:
        listener = _Listener(port, state)
    except OSError as error:
        raise ArgumentsUnfit(
            f"port {port} cannot be used: {error.strerror}", hint="leave out `--port`"
        ) from None
    with listener:
        query = {"port": listener.server_port, "challenge": challenge, "state": state}
        address = f"{url.rstrip('/')}/console/sso?{urlencode(query)}"
        tell(f"sign in at {address}")
        if browser:
            webbrowser.open(address)
        code = listener.wait()
    token = _exchanged(url, code=code, verifier=verifier)
    if shown and not as_json:
        print_line(token.token)
        return
    kept = {"token": token.token} if shown else {"file": str(store_token(url, token))}
    if as_json:
        ends_at = token.expires_at.isoformat()
        print_json({"url": url, "name": token.name, "expires_at": ends_at, **kept})
        return
    tell(
        f"signed in as {token.name} until {token.expires_at:%Y-%m-%d %H:%M} UTC; "
        f"the token is in {kept['file']}"
    )


def _exchanged(url: str, *, code: str, verifier: str) -> StoredToken:
    transport = Transport(url, "", "main")
    try:
        made = transport.send("sso/token", {"code": code, "verifier": verifier}).body
    finally:
        transport.close()
    return StoredToken(
        token=str(made["token"]),
        name=str(made["name"]),
        expires_at=dt.datetime.fromisoformat(str(made["expires_at"])).astimezone(dt.UTC),
    )
