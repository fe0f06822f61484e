"""Sign-ins at the provider, from a browser's request to the token with the rights of its groups.

A sealed cookie binds a sign-in to its browser: it has `state`, `nonce` and the PKCE verifier. Each
sign-in, and each code for a command line, counts once in this process.
"""

import base64
import datetime as dt
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

import attrs
import structlog
from fastapi import Depends, Request

from narthex.settings import Settings
from narthex_ledger import Ledger, Sealer
from narthex_server.errors import Missing, SignInUnavailable, TooManyAttempts
from narthex_server.security.browser_sessions import open_text, seal_text
from narthex_server.security.secrets import SecretUnreadable
from narthex_server.security.sign_in_attempts import Attempts
from narthex_server.security.tokens import SINGLE_SIGN_ON, make_token
from narthex_server.sso.configuration import GroupRule, SsoFile, SsoFileInvalid, load_sso_file
from narthex_server.sso.id_tokens import NotSignedIn, Person, read_id_token
from narthex_server.sso.provider import OidcProvider

log = structlog.get_logger()

SIGN_IN_LASTS: Final = dt.timedelta(minutes=10)
"""How long a person may take at the provider."""

CODE_LASTS: Final = dt.timedelta(minutes=1)
"""How long a command line may take to exchange its code."""

LEAST_PORT: Final = 1024
_SIGN_IN: Final = "single sign-on"
_CODE: Final = "code for a command line"
_GREATEST_SECRET_BYTES: Final = 65_536
_MOST_USED: Final = 100_000
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_ANSWER_CODE: Final = re.compile(r"[!-~]{1,4000}")


class SsoUnavailable(SignInUnavailable):
    """The installation's configuration does not allow to sign in at the provider."""


@attrs.frozen(kw_only=True)
class CommandLine:
    """A command that waits on this port of the person's machine for its token.

    Attributes:
        challenge: The hash of what the command must show with its code (PKCE, S256).
        state: What the command expects beside its code.
    """

    port: int
    challenge: str
    state: str

    def __attrs_post_init__(self) -> None:
        if not (
            LEAST_PORT <= self.port < 1 << 16
            and _CHALLENGE.fullmatch(self.challenge)
            and _CHALLENGE.fullmatch(self.state)
        ):
            raise NotSignedIn("the command's address is not valid; run `narthex login` again")


@attrs.frozen(kw_only=True)
class SignIn:
    """A sign-in that has begun in a browser.

    Attributes:
        to: The page to open afterwards.
        command: The command that asked for a token; None if the console is opened.
    """

    state: str
    nonce: str
    verifier: str
    ends_at: dt.datetime
    to: str
    command: CommandLine | None

    def plain(self) -> str:
        """Render it as JSON."""
        plain = attrs.asdict(self) | {"ends_at": self.ends_at.isoformat()}
        return json.dumps(plain)

    @staticmethod
    def read(text: str) -> "SignIn":
        """Read the JSON that this installation has sealed."""
        plain = json.loads(text)
        command = CommandLine(**plain["command"]) if plain["command"] else None
        ends_at = dt.datetime.fromisoformat(plain["ends_at"])
        return SignIn(**plain | {"ends_at": ends_at, "command": command})


@attrs.frozen(kw_only=True)
class SignedIn:
    """A person who has signed in, with the rule of a group.

    Attributes:
        ends_at: When the person's session or token ends.
    """

    name: str
    rule: GroupRule
    ends_at: dt.datetime


@attrs.frozen(kw_only=True)
class MadeToken:
    """A token with the rights of a person's groups."""

    token: str = attrs.field(repr=False)
    token_id: str
    signed_in: SignedIn
    lasts: dt.timedelta


@attrs.define
class UsedOnce:
    """Names that were used, until they expire: none can be used again in this process."""

    _ends: dict[str, dt.datetime] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def claim(self, one: str, *, ends_at: dt.datetime) -> bool:
        """Note a use; return whether it is the first.

        Raises:
            TooManyAttempts: Too many were used within their time.
        """
        now = dt.datetime.now(dt.UTC)
        with self._lock:
            if one in self._ends:
                return False
            if len(self._ends) >= _MOST_USED:
                self._ends = {name: end for name, end in self._ends.items() if end > now}
            if len(self._ends) >= _MOST_USED:
                raise TooManyAttempts("too many people sign in; try again in some minutes")
            self._ends[one] = ends_at
            return True


@attrs.define(kw_only=True)
class SingleSignOn:
    """The sign-ins of one installation.

    Attributes:
        stored_secret: Returns a stored secret by its name, or raises SecretUnreadable.
        attempts: The failed sign-ins of the last minute, apart from wrong tokens.
    """

    settings: Settings
    ledger: Ledger
    sealer: Sealer
    stored_secret: Callable[[str], str]
    attempts: Attempts = attrs.field(factory=Attempts)
    _used: UsedOnce = attrs.field(factory=UsedOnce, init=False)
    _provider: OidcProvider | None = attrs.field(default=None, init=False)

    def provider_name(self) -> str | None:
        """Return the provider's name; empty if the file has mistakes, None without a file."""
        try:
            return self.file().name
        except SsoUnavailable:
            return ""
        except Missing:
            return None

    def file(self) -> SsoFile:
        """Return the configuration as it is now.

        Raises:
            Missing: There is none.
            SsoUnavailable: It has mistakes.
        """
        try:
            found = load_sso_file(self.settings.sso_file)
        except SsoFileInvalid as error:
            raise SsoUnavailable(
                f"single sign-on is closed until an operator corrects its file:\n{error}"
            ) from None
        if found is None:
            raise Missing("this installation has no single sign-on; sign in with a token")
        return found

    def begin(self, *, to: str, command: CommandLine | None = None) -> tuple[str, str, SsoFile]:
        """Begin a sign-in.

        Returns:
            The address of the provider's page, the sealed cookie, and the configuration.

        Raises:
            ProviderUnavailable: The provider does not answer.
        """
        file = self.file()
        endpoint = self._provider_of(file).discovered().authorization_endpoint
        began = SignIn(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            ends_at=dt.datetime.now(dt.UTC) + SIGN_IN_LASTS,
            to=to,
            command=command,
        )
        query = {
            "response_type": "code",
            "client_id": file.client_id,
            "redirect_uri": file.callback,
            "scope": " ".join(dict.fromkeys(("openid", *file.scopes))),
            "state": began.state,
            "nonce": began.nonce,
            "code_challenge": challenge_of(began.verifier),
            "code_challenge_method": "S256",
        }
        joined = "&" if urlsplit(endpoint).query else "?"
        cookie = seal_text(began.plain(), about=_SIGN_IN, sealer=self.sealer)
        return f"{endpoint}{joined}{urlencode(query)}", cookie, file

    def finish(
        self, answer: Mapping[str, str], *, cookie: str, caller: str
    ) -> tuple[SignIn, SignedIn, SsoFile]:
        """Finish a sign-in with the parameters of the provider's answer.

        Raises:
            NotSignedIn: The answer does not sign the person in, or no rule has a group.
            ProviderUnavailable: The provider does not answer.
            TooManyAttempts: The caller has failed too often.
        """
        file = self.file()
        began = self._begun(answer, cookie, file)
        if not self.attempts.may_try(caller):
            raise TooManyAttempts("too many failed sign-ins; try again in a minute")
        if not self._used.claim(began.state, ends_at=began.ends_at):
            raise NotSignedIn("this sign-in was finished before; sign in again")
        try:
            return began, self._signed_in(answer, began, file), file
        except (NotSignedIn, SignInUnavailable) as error:
            self.attempts.failed(caller)
            log.warning("not_signed_in", reason=str(error))
            raise

    def _begun(self, answer: Mapping[str, str], cookie: str, file: SsoFile) -> SignIn:
        """Return the sign-in of this browser that an answer of the provider belongs to."""
        text = open_text(cookie, about=_SIGN_IN, sealer=self.sealer)
        if text is None:
            raise NotSignedIn(
                f"this browser has not begun to sign in; start at {file.url.rstrip('/')}/console"
            )
        began = SignIn.read(text)
        state = answer.get("state", "").encode()
        if not hmac.compare_digest(state, began.state.encode()):
            raise NotSignedIn("the answer is for another sign-in; sign in again")
        if began.ends_at <= dt.datetime.now(dt.UTC):
            raise NotSignedIn("it took too long; sign in again")
        return began

    def _signed_in(self, answer: Mapping[str, str], began: SignIn, file: SsoFile) -> SignedIn:
        provider = self._provider_of(file)
        issuer = answer.get("iss")
        if issuer is None and provider.discovered().names_itself:
            raise NotSignedIn("the answer does not name its issuer")
        if issuer not in {None, file.issuer}:
            raise NotSignedIn("the answer is of another issuer")
        if "error" in answer:
            raise NotSignedIn("the provider refused the sign-in; ask who operates it")
        code = answer.get("code", "")
        if not _ANSWER_CODE.fullmatch(code):
            raise NotSignedIn("the answer has no code")
        token = provider.exchange(
            file, code=code, verifier=began.verifier, secret=self._secret(file)
        )
        person = read_id_token(token, file=file, provider=provider, nonce=began.nonce)
        return _with_rule(person, file)

    def make_token(self, signed_in: SignedIn) -> MadeToken:
        """Store a token with the rights of the person's groups."""
        lasts = signed_in.ends_at - dt.datetime.now(dt.UTC)
        if lasts <= dt.timedelta(0):
            raise NotSignedIn("the provider's session has ended; sign in again")
        token_id = secrets.token_hex(8)
        token = make_token(self.settings.install_id, token_id)
        rule = signed_in.rule
        self.ledger.tokens.put(
            token,
            name=signed_in.name,
            scopes=tuple(rule.roles),
            branches=tuple(rule.branches),
            tags=tuple(rule.tags),
            lifetime=lasts,
            token_id=token_id,
            actor=SINGLE_SIGN_ON,
        )
        return MadeToken(token=token, token_id=token_id, signed_in=signed_in, lasts=lasts)

    def command_code(self, signed_in: SignedIn, command: CommandLine) -> str:
        """Return a code that a command exchanges for a token, once and soon."""
        ends_at = dt.datetime.now(dt.UTC) + CODE_LASTS
        plain = {
            "id": secrets.token_hex(16),
            "ends_at": ends_at.isoformat(),
            "challenge": command.challenge,
            "name": signed_in.name,
            "group": signed_in.rule.group,
            "until": signed_in.ends_at.isoformat(),
        }
        return seal_text(json.dumps(plain), about=_CODE, sealer=self.sealer)

    def exchange(self, code: str, *, verifier: str, caller: str) -> MadeToken:
        """Return the token for a command's code.

        Raises:
            NotSignedIn: The code is unknown, too old or used, or is that of another command.
            TooManyAttempts: The caller has failed too often.
        """
        file = self.file()
        if not self.attempts.may_try(caller):
            raise TooManyAttempts("too many failed sign-ins; try again in a minute")
        text = open_text(code, about=_CODE, sealer=self.sealer)
        plain = {} if text is None else json.loads(text)
        ends_at = dt.datetime.fromisoformat(plain["ends_at"]) if plain else None
        if (
            ends_at is None
            or ends_at <= dt.datetime.now(dt.UTC)
            or not hmac.compare_digest(challenge_of(verifier), plain["challenge"])
            or not self._used.claim(plain["id"], ends_at=ends_at)
        ):
            self.attempts.failed(caller)
            raise NotSignedIn("the code is not valid, or not any more; run `narthex login` again")
        rule = file.rule_for((plain["group"],))
        if rule is None:
            raise NotSignedIn("the rule of the group was removed; sign in again")
        until = dt.datetime.fromisoformat(plain["until"])
        return self.make_token(SignedIn(name=plain["name"], rule=rule, ends_at=until))

    def _provider_of(self, file: SsoFile) -> OidcProvider:
        """Return the provider, which keeps what it has read while the issuer is the same."""
        if self._provider is None or self._provider.issuer != file.issuer:
            self._provider = OidcProvider(issuer=file.issuer, ca_file=self.settings.ca_file)
        return self._provider

    def _secret(self, file: SsoFile) -> str:
        """Return the client's secret; empty if the client has none.

        Raises:
            SsoUnavailable: The file names one that does not exist.
        """
        if file.client_secret_env:
            found = os.environ.get(file.client_secret_env, "")
        elif file.client_secret_name:
            try:
                found = self.stored_secret(file.client_secret_name)
            except SecretUnreadable as error:
                log.warning("sso_secret_unreadable", reason=str(error))
                found = ""
        elif file.client_secret_file:
            found = _content(Path(file.client_secret_file))
        else:
            return ""
        if not found.strip():
            raise SsoUnavailable(
                "single sign-on is closed: the client secret that `sso.toml` names is missing or "
                "empty; sign in with a token, or ask an operator to store it"
            )
        return found.strip()


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_GREATEST_SECRET_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def challenge_of(verifier: str) -> str:
    """Return the PKCE challenge (S256) of a verifier."""
    digest = hashlib.sha256(verifier.encode(errors="surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _with_rule(person: Person, file: SsoFile) -> SignedIn:
    rule = file.rule_for(person.groups)
    if rule is None:
        raise NotSignedIn(
            f"no group of `{person.name}` has rights here; ask an operator for a rule in `sso.toml`"
        )
    ends_at = dt.datetime.now(dt.UTC) + file.lifetime
    if person.ends_at is not None:
        ends_at = min(ends_at, person.ends_at)
    return SignedIn(name=person.name, rule=rule, ends_at=ends_at)


def sso_of(request: Request) -> SingleSignOn:
    """Return the sign-ins of this process."""
    sso: SingleSignOn = request.app.state.single_sign_on
    return sso


SsoDep: TypeAlias = Annotated[SingleSignOn, Depends(sso_of)]
