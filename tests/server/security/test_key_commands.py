"""`narthex keys`, as an operator runs it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from narthex.cli import make_app
from narthex.errors import ArgumentsUnfit
from narthex.settings import environment_of
from tests.server.conftest import House

pytestmark = pytest.mark.postgres


@pytest.fixture
def ran(house: House, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name, value in environment_of(house.services.settings).items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(make_app(), ["keys", *arguments])


def listed(ran: Callable[..., Result]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran("list", "--json").stdout)
    return found


@pytest.mark.parametrize(
    ("purpose", "renewed"), [("signing", "1 of token"), ("secrets", "1 of secret")]
)
def test_a_key_is_announced_rotated_and_kept_until_nothing_needs_it(
    house: House, ran: Callable[..., Result], purpose: str, renewed: str
) -> None:
    house.ledger.tokens.put("nx_tests000_a", name="a", scopes=("reader",))
    house.services.secrets.add("stripe", "sk-1", actor="ada")
    (old,) = (one["key_id"] for one in listed(ran) if one["purpose"] == purpose)

    announced = ran("rotate", purpose, "--announce")
    rotated = ran("rotate", purpose)
    again = ran("rotate", purpose, "--json")
    kept = ran("retire", old)

    assert announced.exit_code == 0, announced.output
    assert "copy the files of the keys to the other machines" in announced.stderr
    assert renewed in rotated.stderr
    assert f"narthex keys retire {old}" in rotated.stderr
    states = {one["key_id"]: one["state"] for one in listed(ran) if one["purpose"] == purpose}
    new = json.loads(again.stdout)["key_id"]
    assert states == {old: "old", new: "current"}
    assert isinstance(kept.exception, ArgumentsUnfit)
    assert "less than 60 s ago" in str(kept.exception)


def test_keys_are_listed_for_people(house: House, ran: Callable[..., Result]) -> None:
    house.ledger.tokens.put("nx_tests000_a", name="a", scopes=("reader",))

    found = ran("list")
    headings, signing, sealing = found.stdout.splitlines()

    assert headings.split() == ["purpose", "key", "state", "since", "rows"]
    assert signing.startswith("signing  ")
    assert "  current  2" in signing
    assert "1 of token" in signing
    assert sealing.endswith("no rows")
    assert "never changes" in found.stderr


def test_the_command_names_the_machine_that_it_needs(
    house: House, ran: Callable[..., Result]
) -> None:
    key = house.services.settings.signing_key
    house.ledger.tokens.put("nx_tests000_a", name="a", scopes=("reader",))
    key.rename(key.with_name("moved"))

    missing = ran("rotate", "signing")

    assert isinstance(missing.exception, ArgumentsUnfit)
    assert "run this command on the server's machine" in str(missing.exception)
