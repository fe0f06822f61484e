"""The calls to the provider: its discovery document, its keys, and the exchange of a code.

The operator has configured the address, so the egress rules of authors do not apply to it. No
redirect is followed, answers are bounded in bytes and in time, and no error has a secret.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import attrs
import httpx

from narthex._base import Json, is_deeper
from narthex_server.errors import SignInUnavailable
from narthex_server.sso.configuration import SsoFile, is_private

TIMEOUT_S: Final = 10.0
"""How long a call takes at most, from the lookup of the provider's name to the last byte."""

GREATEST_ANSWER_BYTES: Final = 1 << 20
KNOWN_S: Final = 3600.0
"""How long a discovery document and keys are used."""

KEYS_KNOWN_S: Final = 30.0
"""How long keys are used at least, even if a token has a key that is not among them."""

FAILURE_KNOWN_S: Final = 2.0
"""How long a failed call is not repeated, so that a provider that is down occupies no threads."""

MOST_CALLS: Final = 8
"""How many calls wait for the provider at a time; another one is refused, and waits for nothing.

So a provider that does not answer leaves most of the server's threads to other requests.
"""

_DEPTH: Final = 16
_CODE_GRANT: Final = "authorization_code"

_T = TypeVar("_T")


class ProviderUnavailable(SignInUnavailable):
    """The provider does not answer, or not as a provider must.

    Attributes:
        reason: What it did, as the rest of a sentence.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the provider of single sign-on {reason}; try again, sign in with a token, or ask an "
            "operator to check `sso.toml`"
        )


@attrs.frozen(kw_only=True)
class Discovered:
    """The provider's discovery document, as far as it is used.

    Attributes:
        posts_secret: Whether the secret is sent in the body, because the provider reads no header.
        names_itself: Whether its answers to browsers have `iss`.
    """

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    posts_secret: bool
    names_itself: bool


@attrs.define
class _Memory(Generic[_T]):
    """The value that was last read, or its failure, which is not repeated at once."""

    _read: Callable[[], _T]
    _now: Callable[[], float]
    _value: tuple[float, _T] | None = None
    _failure: tuple[float, str] | None = None

    def value(self, greatest_age_s: float = KNOWN_S) -> _T:
        now = self._now()
        if self._value is not None and now - self._value[0] < greatest_age_s:
            return self._value[1]
        if self._failure is not None and now - self._failure[0] < FAILURE_KNOWN_S:
            raise ProviderUnavailable(self._failure[1])
        try:
            found = self._read()
        except ProviderUnavailable as error:
            self._failure = (self._now(), error.reason)
            raise
        self._value = (self._now(), found)
        return found


@attrs.define(kw_only=True)
class OidcProvider:
    """A provider; any number of threads may use it.

    Attributes:
        ca_file: The authorities that its certificate is verified with; empty for those that the
            machine trusts.
        now: A clock in seconds, for durations.
    """

    issuer: str
    ca_file: str = ""
    now: Callable[[], float] = time.monotonic
    _discovered: _Memory[Discovered] = attrs.field(init=False)
    _keys: _Memory[tuple[Mapping[str, Json], ...]] = attrs.field(init=False)
    _turns: threading.BoundedSemaphore = attrs.field(
        factory=lambda: threading.BoundedSemaphore(MOST_CALLS), init=False
    )

    def __attrs_post_init__(self) -> None:
        self._discovered = _Memory(self._discover, self.now)
        self._keys = _Memory(self._read_keys, self.now)

    def discovered(self) -> Discovered:
        """Return the discovery document.

        Raises:
            ProviderUnavailable: It cannot be read, or is not that of the configured issuer.
        """
        return self._discovered.value()

    def keys(self, *, again: bool = False) -> tuple[Mapping[str, Json], ...]:
        """Return the public keys, as JSON Web Keys.

        Args:
            again: Whether to read them again, if they were not read just now.

        Raises:
            ProviderUnavailable: They cannot be read.
        """
        return self._keys.value(KEYS_KNOWN_S if again else KNOWN_S)

    def exchange(self, file: SsoFile, *, code: str, verifier: str, secret: str) -> str:
        """Exchange an authorization code for an ID token, which is not checked yet.

        Raises:
            ProviderUnavailable: The provider did not answer with a token.
        """
        found = self.discovered()
        form = {
            "grant_type": _CODE_GRANT,
            "code": code,
            "redirect_uri": file.callback,
            "code_verifier": verifier,
        }
        login = None
        if secret and not found.posts_secret:
            login = httpx.BasicAuth(quote(file.client_id, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": file.client_id} | ({"client_secret": secret} if secret else {})
        answer = self._call("POST", found.token_endpoint, form=form, login=login)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderUnavailable("sent no ID token")
        return token

    def _discover(self) -> Discovered:
        at = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = self._call("GET", at)
        if answer.get("issuer") != self.issuer:
            raise ProviderUnavailable("names itself as another issuer than the configured one")
        endpoints: dict[str, str] = {}
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            value = answer.get(name)
            is_local = isinstance(value, str) and value.startswith("http:")
            if (
                not isinstance(value, str)
                or not is_private(value)
                or (is_local and self.issuer.startswith("https:"))
            ):
                raise ProviderUnavailable(f"has no `{name}` with `https`")
            endpoints[name] = value
        methods = answer.get("token_endpoint_auth_methods_supported")
        known = methods if isinstance(methods, list) else ["client_secret_basic"]
        return Discovered(
            **endpoints,
            posts_secret="client_secret_basic" not in known and "client_secret_post" in known,
            names_itself=answer.get("authorization_response_iss_parameter_supported") is True,
        )

    def _read_keys(self) -> tuple[Mapping[str, Json], ...]:
        keys = self._call("GET", self.discovered().jwks_uri).get("keys")
        if not isinstance(keys, list):
            raise ProviderUnavailable("sent no keys")
        return tuple(key for key in keys if isinstance(key, dict))

    def _call(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        login: httpx.Auth | None = None,
    ) -> Mapping[str, Json]:
        """Return the JSON object that the provider answers with.

        Raises:
            ProviderUnavailable: It answers with something else, or not in time.
        """
        if not self._turns.acquire(blocking=False):
            raise ProviderUnavailable("has many calls to answer")
        try:
            status, content = asyncio.run(self._answer(method, url, form, login))
        except TimeoutError:
            raise ProviderUnavailable(f"did not answer within {TIMEOUT_S:.0f} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise ProviderUnavailable(f"does not answer ({type(error).__name__})") from None
        finally:
            self._turns.release()
        if form is not None and 400 <= status < 500:  # noqa: PLR2004 - the client's mistakes
            raise ProviderUnavailable(f"refused the sign-in with status {status}{_code(content)}")
        if status != 200:  # noqa: PLR2004 - anything else, redirects too, is no answer
            raise ProviderUnavailable(f"answered with status {status}")
        found = _object(content)
        if found is None:
            raise ProviderUnavailable("did not answer with a JSON object")
        return found

    async def _answer(
        self, method: str, url: str, form: Mapping[str, str] | None, login: httpx.Auth | None
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer.

        A proxy of the environment is used with `https` only, as it can read everything else.
        """
        content = b""
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(
                verify=ssl.create_default_context(cafile=self.ca_file or None),
                timeout=TIMEOUT_S,
                follow_redirects=False,
                trust_env=url.startswith("https:"),
                headers={"accept": "application/json", "accept-encoding": "identity"},
            ) as client,
            client.stream(method, url, data=form, auth=login) as answer,
        ):
            async for part in answer.aiter_raw():
                content += part
                if len(content) > GREATEST_ANSWER_BYTES:
                    raise ProviderUnavailable("sent more than 1 MiB")
        return answer.status_code, content


def _object(content: bytes) -> dict[str, Json] | None:
    try:
        found = None if is_deeper(content, _DEPTH) else json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _code(content: bytes) -> str:
    """Return the error code of an answer, such as ` (invalid_client)`, if it is one word."""
    code = (_object(content) or {}).get("error")
    is_plain = isinstance(code, str) and len(code) <= 60 and code.replace("_", "").isalnum()  # noqa: PLR2004 - a word
    return f" ({code})" if is_plain and str(code).isascii() else ""
