"""`narthex token rotate`: the token that it chooses, and its output."""

from typing import Any

import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex.errors import ArgumentsUnfit
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

VALID: dict[str, Any] = {
    "token_id": "a1",
    "name": "ci",
    "expires_at": "2999-01-01T00:00:00+00:00",
    "revoked_at": None,
}
ENDED = VALID | {"token_id": "a0", "expires_at": "2020-01-01T00:00:00+00:00"}
REVOKED = VALID | {"token_id": "a2", "revoked_at": "2020-01-01T00:00:00+00:00"}
MADE = {
    "token": "nx_new",
    "token_id": "b1",
    "rotated": "a1",
    "rotated_expires_at": "2026-01-08T00:00:00+00:00",
}


def ran(stub: Stub, *arguments: str) -> Any:
    server = ("--url", stub.url, "--token", "word")
    return CliRunner().invoke(make_app(), ["token", "rotate", *arguments, *server])


@pytest.mark.parametrize("named", ["ci", "a1"])
def test_the_valid_token_of_a_name_is_rotated(stub: Stub, named: str) -> None:
    stub.answer("tokens", {"tokens": [ENDED, REVOKED, VALID]})
    stub.answer("tokens/a1/rotate", MADE)

    found = ran(stub, named, "--overlap", "1h")

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == ["nx_new"]
    assert "the old token, a1, is accepted until 2026-01-08" in found.stderr
    assert stub.calls[-1].json == {"overlap_s": 3_600}


@pytest.mark.parametrize(
    ("tokens", "arguments", "reason"),
    [
        ([ENDED, REVOKED], ["ci"], "no valid token is named `ci`"),
        ([VALID, VALID | {"token_id": "a3"}], ["ci"], "2 valid tokens are named `ci`: a1, a3"),
        ([VALID], ["ci", "--overlap", "soon"], "`--overlap soon`: `s` is not allowed there"),
    ],
)
def test_no_token_is_rotated_by_guess(
    stub: Stub, tokens: list[dict[str, Any]], arguments: list[str], reason: str
) -> None:
    stub.answer("tokens", {"tokens": tokens})

    found = ran(stub, *arguments)

    assert isinstance(found.exception, ArgumentsUnfit)
    assert reason in str(found.exception)
