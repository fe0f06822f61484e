"""The names of HTTP statuses, for tests of responses: `codes.OK`."""

from http import HTTPStatus
from types import SimpleNamespace
from typing import Final

__all__ = ["codes"]

codes: Final = SimpleNamespace(
    **{status.name: status.value for status in HTTPStatus},
    **{status.name.lower(): status.value for status in HTTPStatus},
    SERVER_ERROR=HTTPStatus.INTERNAL_SERVER_ERROR.value,
    server_error=HTTPStatus.INTERNAL_SERVER_ERROR.value,
)
"""Statuses by name, in both cases."""
