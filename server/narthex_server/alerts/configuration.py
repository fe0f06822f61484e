"""The alerts file of an installation: its receivers, and the bounds of its rules.

It has no secrets: a receiver names those of `narthex secret set`, or of the secret manager.
"""

import datetime as dt
import fnmatch
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from narthex._base import parse_duration
from narthex._ir import AlertSeverity
from narthex_ledger import AlertFinding

URGENCY: Final = tuple(severity.value for severity in AlertSeverity)
"""The severities, the most urgent first."""


class AlertsFileInvalid(ValueError):
    """The alerts file has mistakes.

    Attributes:
        mistakes: A sentence for each of them; none has a value of the file.
    """

    def __init__(self, file: str, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(f"{file}: {mistake}" for mistake in mistakes))
        self.mistakes = tuple(mistakes)


def _duration(text: object) -> object:
    """Read a duration that is above zero; anything else is refused by its type."""
    if not isinstance(text, str):
        raise ValueError('write a duration in quotes, such as "10m"')  # noqa: TRY004 - pydantic reports it
    found = dt.timedelta(microseconds=parse_duration(text))
    if not found:
        raise ValueError("write a duration above zero")
    return found


Duration: TypeAlias = Annotated[dt.timedelta, BeforeValidator(_duration)]
Severity: TypeAlias = Literal["critical", "warning", "info"]
Patterns: TypeAlias = Annotated[list[str], Field(min_length=1)]
SecretName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


class _FileTable(BaseModel):
    """A table of the file: it has no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class RuleTable(_FileTable):
    """The parts of every rule.

    Attributes:
        branches: Shell patterns of the branches that the rule is for.
    """

    enabled: bool = True
    branches: Patterns = ["*"]

    def is_for(self, branch: str) -> bool:
        """Return whether the rule is evaluated for a branch."""
        return self.enabled and any(fnmatch.fnmatchcase(branch, one) for one in self.branches)


class UrgencyTable(RuleTable):
    """The parts of rules that decide how urgent their findings are."""

    severity: Severity = "warning"


class FailedCommitRule(UrgencyTable):
    """A commit that failed, or that was withdrawn for its quality."""

    severity: Severity = "critical"


class BrokenExpectationRule(UrgencyTable):
    """An audit that found critical expectations broken; broken warnings are always `warning`."""

    severity: Severity = "critical"


class FreshnessRule(UrgencyTable):
    """The age of the newest row of every dataset; without `max_age`, of those that declare it."""

    max_age: Duration | None = None


class LagRule(UrgencyTable):
    """How far a job is behind its input: the age of the oldest record, and their number."""

    max_age: Duration | None = dt.timedelta(minutes=10)
    max_records: Annotated[int, Field(gt=0)] | None = None


class QuarantineRateRule(UrgencyTable):
    """The share of quarantined rows of every dataset; without `max_rate`, of declared ones."""

    max_rate: Annotated[float, Field(ge=0, lt=1)] | None = None
    window: Duration = dt.timedelta(hours=1)


class DriftRule(RuleTable):
    """A feature whose logged answers drifted; the comparison decides how urgent that is."""


class JobDownRule(UrgencyTable):
    """A job that has failed, or of which no supervisor reports."""

    severity: Severity = "critical"
    silent: Duration = dt.timedelta(minutes=2)


class JobRestartsRule(UrgencyTable):
    """How often a supervisor replaced the driver of its jobs."""

    max_restarts: Annotated[int, Field(ge=0)] = 3
    window: Duration = dt.timedelta(hours=1)


class TokenExpiryRule(UrgencyTable):
    """A token that is about to end."""

    within: Duration = dt.timedelta(days=7)


class CertificateExpiryRule(UrgencyTable):
    """A certificate that is about to end: those of `ca_file`, and of these files."""

    within: Duration = dt.timedelta(days=30)
    files: list[str] = []


class RuleTables(_FileTable):
    """The bounds of all rules."""

    failed_commit: FailedCommitRule = FailedCommitRule()
    broken_expectation: BrokenExpectationRule = BrokenExpectationRule()
    freshness: FreshnessRule = FreshnessRule()
    lag: LagRule = LagRule()
    quarantine_rate: QuarantineRateRule = QuarantineRateRule()
    drift: DriftRule = DriftRule()
    job_down: JobDownRule = JobDownRule()
    job_restarts: JobRestartsRule = JobRestartsRule()
    token_expiry: TokenExpiryRule = TokenExpiryRule()
    certificate_expiry: CertificateExpiryRule = CertificateExpiryRule()


RULES: Final = tuple(RuleTables.model_fields)
"""The rules that the server evaluates; other processes report findings of other rules."""


class ReceiverTable(_FileTable):
    """The parts of every receiver.

    Attributes:
        severity: The least urgent severity that it gets.
        rules: Shell patterns of the rules that it gets.
        branches: Shell patterns of the branches; the installation's own alerts have an empty name.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    severity: Severity = "info"
    rules: Patterns = ["*"]
    branches: Patterns = ["*"]
    repeat_every: Duration | None = None

    def gets(self, finding: AlertFinding) -> bool:
        """Return whether the receiver gets alerts of a finding."""
        return (
            URGENCY.index(finding.severity) <= URGENCY.index(self.severity)
            and any(fnmatch.fnmatchcase(finding.rule, one) for one in self.rules)
            and any(fnmatch.fnmatchcase(finding.branch, one) for one in self.branches)
        )


class _HttpReceiver(ReceiverTable):
    """A receiver at an address, which is a secret itself if it contains one.

    Attributes:
        url_secret: The name of the secret that is the address, instead of `url`.
        token_secret: The name of the secret to send as `Authorization: Bearer`.
    """

    url: str = ""
    url_secret: SecretName | None = None
    token_secret: SecretName | None = None

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if bool(self.url) == bool(self.url_secret):
            raise ValueError("give either `url`, or `url_secret` with the name of a secret")
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("`url` is not an address such as `https://example.com/alerts`")
        if parts.username or parts.password:
            raise ValueError("`url` has credentials; store it as a secret and give `url_secret`")
        return self


class WebhookReceiver(_HttpReceiver):
    """A receiver of our messages as JSON."""

    kind: Literal["webhook"]


class SlackReceiver(_HttpReceiver):
    """A receiver of texts by an incoming webhook of Slack, Mattermost or another that is alike."""

    kind: Literal["slack"]

    @model_validator(mode="after")
    def _keeps_its_address(self) -> Self:
        if urlsplit(self.url).hostname == "hooks.slack.com":
            raise ValueError("the address is a secret; store it and give `url_secret`")
        return self


class AlertmanagerReceiver(_HttpReceiver):
    """An Alertmanager, to which alerts are posted at `/api/v2/alerts` below its address.

    Attributes:
        user: For basic authentication, with `password_secret`.
    """

    kind: Literal["alertmanager"]
    repeat_every: Duration | None = dt.timedelta(minutes=5)
    user: str = ""
    password_secret: SecretName | None = None

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if bool(self.user) != bool(self.password_secret):
            raise ValueError("give both `user` and `password_secret`, or neither")
        if self.user and self.token_secret:
            raise ValueError("give either `user`, or `token_secret`")
        return self


class EmailReceiver(ReceiverTable):
    """A receiver by e-mail.

    Attributes:
        security: `starttls`, `tls` from the first byte, or `none`.
        sender: The address in `From`.
    """

    kind: Literal["email"]
    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(gt=0, lt=65536)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password_secret: SecretName | None = None
    sender: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")]
    to: Annotated[list[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")]], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_a_safe_login(self) -> Self:
        if bool(self.user) != bool(self.password_secret):
            raise ValueError("give both `user` and `password_secret`, or neither")
        if self.user and self.security == "none":
            raise ValueError("the password would travel in clear; set `security`")
        return self


Receiver: TypeAlias = Annotated[
    WebhookReceiver | SlackReceiver | AlertmanagerReceiver | EmailReceiver,
    Field(discriminator="kind"),
]


class AlertsFile(_FileTable):
    """The whole file; without a file, the rules have their defaults and there are no receivers.

    Attributes:
        console_url: The address of this server for people, for links; its own by default.
        evaluate_every: The time between two evaluations.
        group_wait: How long a first message waits for more alerts of its rule and branch.
        group_interval: The least time between two messages about a rule and a branch.
        repeat_every: After what time alerts that still fire are sent again.
    """

    console_url: str = ""
    evaluate_every: Duration = dt.timedelta(seconds=15)
    group_wait: Duration = dt.timedelta(seconds=30)
    group_interval: Duration = dt.timedelta(minutes=5)
    repeat_every: Duration = dt.timedelta(hours=4)
    receivers: list[Receiver] = []
    rules: RuleTables = RuleTables()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [receiver.name for receiver in self.receivers]
        for name in sorted(set(names)):
            if names.count(name) > 1:
                raise ValueError(f"two receivers are named `{name}`")
        return self


def load_alerts_file(path: Path) -> AlertsFile:
    """Read the alerts file as it is now; a missing file is one without receivers.

    Raises:
        AlertsFileInvalid: It cannot be read, or has mistakes; the error lists all of them.
    """
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return AlertsFile()
    except (OSError, UnicodeDecodeError) as error:
        raise AlertsFileInvalid(path.name, [f"it cannot be read: {error}"]) from None
    return _parsed(text, path.name)


@lru_cache(maxsize=4)
def _parsed(text: str, file: str) -> AlertsFile:
    try:
        return AlertsFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise AlertsFileInvalid(file, [f"this is not TOML: {error}"]) from None
    except ValidationError as error:
        mistakes = [_sentence(mistake["loc"], mistake["msg"]) for mistake in error.errors()]
        raise AlertsFileInvalid(file, mistakes) from None


def _sentence(place: Sequence[int | str], message: str) -> str:
    """Render a mistake with its place: `receivers[2].url: …`; receivers are counted from one."""
    path = ""
    for number, part in enumerate(place):
        if isinstance(part, int):
            path += f"[{part + 1}]"
        elif not (number == 2 and place[0] == "receivers"):  # noqa: PLR2004 - the kind, as a tag
            path += f".{part}" if path else part
    text = message.removeprefix("Value error, ")
    return f"`{path}`: {text}" if path else text
