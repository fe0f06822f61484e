"""Providers of OpenID Connect: a real one in its own process, and one that signs any token.

The second checks what a provider must check (PKCE, the redirect, the client's secret), and answers
with any ID token.
"""

import base64
import datetime as dt
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from narthex_stack.machine.ports import free_ports
from tests.server.listening import listening

STARTS_S = 60.0
SECRET = "the-secret:of/the client"
CLIENT = "narthex"


@contextmanager
def running_mock(*people: Mapping[str, object]) -> Iterator[str]:
    """Run `oidc-provider-mock` in a process of its own; yield its issuer."""
    [port] = free_ports(1)
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    for person in people:
        command += ["--user-claims", json.dumps(person)]
    issuer = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"AUTHLIB_INSECURE_TRANSPORT": "1"},
    )
    try:
        _wait_for(f"{issuer}/.well-known/openid-configuration", process)
        yield issuer
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    ends_at = time.monotonic() + STARTS_S
    while time.monotonic() < ends_at:
        assert process.poll() is None, "the provider has ended"
        try:
            httpx.get(url, timeout=2)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the provider did not start")


def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def seconds_from_now(seconds: int) -> int:
    """Return an instant as tokens have it, in seconds since 1970."""
    return int(dt.datetime.now(dt.UTC).timestamp()) + seconds


Claims = dict[str, Any]
Sign = Callable[["SigningProvider", Claims], str]


def signed(provider: "SigningProvider", claims: Claims) -> str:
    return jwt.encode(claims, provider.key, "RS256", headers={"kid": "one"})


@attrs.define
class SigningProvider:
    """A provider whose tokens, documents and answers a test decides.

    Attributes:
        change: Changes the claims of the next tokens.
        sign: Makes the token from its claims.
        document: Replaces entries of the discovery document.
        begun: The queries of the sign-ins that were begun.
        read: The names of what was asked for, in order.
        verifiers: The PKCE verifiers that were sent with codes.
    """

    issuer: str
    key: rsa.RSAPrivateKey = attrs.field(factory=private_key)
    change: Callable[[Claims], None] = lambda _: None
    sign: Sign = signed
    document: dict[str, Any] = attrs.field(factory=dict)
    keys: list[dict[str, Any]] | None = None
    answer: Callable[[], Response] | None = None
    begun: list[dict[str, str]] = attrs.field(factory=list)
    read: list[str] = attrs.field(factory=list)
    verifiers: list[str] = attrs.field(factory=list)
    _codes: dict[str, dict[str, str]] = attrs.field(factory=dict)

    def public(self, **more: object) -> dict[str, Any]:
        """Return the public key, as a JSON Web Key."""
        found: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(
            self.key.public_key(), as_dict=True
        )
        return found | {"kid": "one", "use": "sig", "alg": "RS256"} | more

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def discovery() -> Response:
            self.read.append("discovery")
            return self.answer() if self.answer else JSONResponse(self._described())

        @app.get("/jwks")
        def jwks() -> Response:
            self.read.append("jwks")
            return JSONResponse({"keys": [self.public()] if self.keys is None else self.keys})

        @app.get("/authorize")
        def authorize(request: Request) -> Response:
            query = dict(request.query_params)
            self.begun.append(query)
            code = secrets.token_urlsafe(16)
            self._codes[code] = query
            answer = urlencode({"code": code, "state": query["state"]})
            return RedirectResponse(f"{query['redirect_uri']}?{answer}", status_code=302)

        @app.post("/token")
        async def token(request: Request) -> Response:
            self.read.append("token")
            form = {k: v[0] for k, v in parse_qs((await request.body()).decode()).items()}
            self.verifiers.append(form.get("code_verifier", ""))
            began = self._codes.pop(form.get("code", ""), None)
            verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
            login = httpx.BasicAuth(CLIENT, "the-secret%3Aof%2Fthe%20client")
            expected = next(login.auth_flow(httpx.Request("GET", "http://x"))).headers
            if request.headers.get("authorization") != expected["authorization"]:
                return JSONResponse({"error": "invalid_client"}, status_code=401)
            if (
                began is None
                or began["code_challenge_method"] != "S256"
                or began["code_challenge"] != challenge
                or began["redirect_uri"] != form["redirect_uri"]
                or form["grant_type"] != "authorization_code"
            ):
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            claims = self.claims(began["nonce"])
            self.change(claims)
            return JSONResponse({"id_token": self.sign(self, claims), "token_type": "Bearer"})

        return app

    def claims(self, nonce: str) -> Claims:
        now = seconds_from_now(0)
        return {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "7",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "email": "ada@example.com",
            "email_verified": True,
            "groups": ["data"],
        }

    def _described(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
        } | self.document


@contextmanager
def running_provider() -> Iterator[SigningProvider]:
    [port] = free_ports(1)
    provider = SigningProvider(f"http://localhost:{port}")
    with listening(provider.app(), port):
        yield provider


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
