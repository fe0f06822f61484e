"""Errors of requests by what is wrong; `web.error_responses` maps each to its HTTP status."""

from collections.abc import Sequence


class ServerError(Exception):
    """The server refuses a request.

    Attributes:
        errors: The single mistakes, when the message summarizes several.
    """

    def __init__(self, message: str, *, errors: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class InvalidRequest(ServerError):
    """The request does not make sense, whatever the platform's state is."""


class NotAuthenticated(ServerError):
    """The request has no valid token."""

    def __init__(self) -> None:
        super().__init__("a valid token is required")


class Forbidden(ServerError):
    """The principal may not do this; the default message does not reveal why."""

    def __init__(self, message: str = "the token does not allow this") -> None:
        super().__init__(message)


class RightMissing(Forbidden):
    """The token lacks a right; the rights of routes are public, so the message names it."""

    def __init__(self, right: str) -> None:
        super().__init__(f"the token lacks the right `{right}`")


class Missing(ServerError):
    """The named entity does not exist, or is hidden from this principal."""


class NothingDeployed(Missing):
    """No commit of the branch is deployed yet, so that it has nothing to read."""


class Conflicting(ServerError):
    """The platform's present state does not allow it; a retry may succeed."""


class IndexUnavailable(ServerError):
    """The index of a dataset is missing; its writer restores it, so a retry may succeed."""

    def __init__(self, dataset: str) -> None:
        super().__init__(
            f"the index of `{dataset}` is missing; a supervisor restores it from its snapshot or "
            "from the log: retry"
        )


class EndpointHeld(ServerError):
    """The records of an endpoint are being copied without erased rows; a retry will succeed."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(
            f"the endpoint `{endpoint}` accepts no rows for some seconds, because rows of it are "
            "being erased: retry"
        )


class SignInUnavailable(ServerError):
    """Nobody can sign in at the provider now: it does not answer, or its configuration is wrong."""


class SnapshotTooOld(ServerError):
    """The ledger has not been read for longer than the installation allows."""

    def __init__(self, age_s: float) -> None:
        super().__init__(
            f"the definitions were last read {age_s:.0f} s ago, and the database does not answer; "
            "`reads_greatest_age_s` decides for how long reads go on without it"
        )


class TooManyRequests(ServerError):
    """More requests wait than the process can answer in time; a retry may succeed."""

    def __init__(self) -> None:
        super().__init__(
            "too many requests are waiting; retry, send fewer at a time, or start more read "
            "processes"
        )


class DeadlineExceeded(ServerError):
    """The caller's deadline passed before the request was answered."""

    def __init__(self) -> None:
        super().__init__("the deadline in `x-narthex-timeout-ms` has passed")


class Gone(ServerError):
    """The object of the request has ended; no retry can succeed."""


class TooLarge(ServerError):
    """The logs cannot store the content of the request."""


class QueryTooLarge(TooLarge):
    """A query asks for more values, rows times features, than the server answers at once.

    Attributes:
        greatest_rows: How many rows it may have with these features.
    """

    def __init__(self, values: int, *, most: int, features: int) -> None:
        super().__init__(
            f"the query asks for {values} values, rows times features; this server answers at "
            f"most {most} at once: split the rows, or use `query_offline`"
        )
        self.greatest_rows = most // max(features, 1)


class TooManyAttempts(ServerError):
    """The caller has shown too many wrong tokens, and must wait."""
