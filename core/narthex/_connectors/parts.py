"""Read the parts of a connector one by one and report their errors together."""

from collections.abc import Collection, Mapping

from narthex._authoring.durations import read_duration
from narthex._authoring.error_collection import report
from narthex._authoring.source_locations import author_origin, calling_package
from narthex._ir.entities import AwsSecretRef, Credential, SecretRef
from narthex.errors import ConnectorInvalid, CredentialInline, DefinitionError, NotYetSupported

_NOTHING = SecretRef("")
"""Replaces a refused credential, so that the following parts can be read too."""

_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token"}
)


class Parts:
    """Reads the parts of one connector.

    An inline credential is neither kept nor shown.
    """

    def __init__(self, connector: str) -> None:
        self.connector = connector
        self.origin = author_origin(beyond=calling_package())
        self.errors: list[DefinitionError] = []

    def report(self) -> None:
        """Report the errors of the parts.

        Raises:
            DefinitionErrors: There are errors, and no collector is active.
        """
        report(self.errors)

    def refuse(self, message: str, *, hint: str = "") -> None:
        """Add an error."""
        self.errors.append(ConnectorInvalid(message, origin=self.origin, hint=hint))

    def unsupported(self, parameter: str, reason: str) -> None:
        """Refuse a parameter that would have no effect."""
        self.errors.append(
            NotYetSupported(
                f"`{parameter}` of `{self.connector}` has no effect: {reason}",
                origin=self.origin,
                hint=f"leave `{parameter}` out",
            )
        )

    def text(self, value: object, what: str) -> str:
        """Read a text that must not be empty."""
        if isinstance(value, str) and value:
            return value
        self.refuse(f"{what} got `{value!r}`; expected a text")
        return ""

    def optional_text(self, value: object, what: str) -> str | None:
        """Read a text that may be left out, but must not be empty."""
        return None if value is None else self.text(value, what)

    def name(self, value: object) -> str:
        """Read the connector's name."""
        return self.text(value, f"the name of `{self.connector}`")

    def address(self, value: object, what: str) -> str:
        """Read an address, which must not contain credentials."""
        if isinstance(value, str) and "@" in value:
            self.errors.append(self._inline(f"a credential in `{what}`", what))
            return ""
        return self.text(value, f"`{what}`")

    def number(self, value: object, what: str) -> int:
        """Read a whole number above zero."""
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.refuse(f"`{what}` got `{value!r}`; expected a whole number above zero")
        return 1

    def one_of(self, value: object, what: str, known: Collection[str]) -> str:
        """Read a name that must be one of the allowed ones."""
        if isinstance(value, str) and value in known:
            return value
        self.refuse(f"`{what}` got `{value!r}`; expected one of {', '.join(known)}")
        return next(iter(known))

    def duration(self, value: object, what: str) -> int | None:
        """Read an optional duration, as microseconds."""
        if value is None:
            return None
        try:
            return read_duration(value, origin=self.origin, what=f"`{what}`")
        except DefinitionError as error:
            self.errors.append(error)
            return None

    def credential(self, value: object, what: str) -> Credential | None:
        """Read an optional credential: a reference, never the credential itself."""
        if value is None or isinstance(value, SecretRef | AwsSecretRef):
            return value
        self.errors.append(self._inline(f"`{what}`", what))
        return _NOTHING

    def needed(self, value: object, what: str) -> Credential:
        """Read a required credential."""
        credential = self.credential(value, what)
        if credential is None:
            self.refuse(f"`{self.connector}` has no `{what}`", hint=f'write `{what}=Secret("…")`')
        return credential or _NOTHING

    def headers(self, headers: Mapping[str, object]) -> tuple[tuple[str, str | Credential], ...]:
        """Read the headers of a call; those that authenticate must be references."""
        found: list[tuple[str, str | Credential]] = []
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS or isinstance(value, SecretRef | AwsSecretRef):
                found.append((name, self.needed(value, f"headers[{name!r}]")))
            else:
                found.append((name, self.text(value, f"`headers[{name!r}]`")))
        return tuple(found)

    def _inline(self, what: str, parameter: str) -> CredentialInline:
        return CredentialInline(
            f"{what} of `{self.connector}` is plain text in the definition, which anyone may read",
            origin=self.origin,
            hint=f'store it with `narthex secret set` and write `{parameter}=Secret("…")`',
        )


def Secret(name: str) -> SecretRef:  # noqa: N802 (it reads as a value)
    """Name a secret of the platform; its value is never part of a definition."""
    return SecretRef(name)
