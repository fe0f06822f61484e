"""The commands about commits: a commit is named by its number, its id, or the id's first digits."""

from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from narthex.cli import make_app as make_cli
from narthex.errors import ArgumentsUnfit
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.commits.test_rollback import without_featuresets
from tests.server.conftest import TOKEN, House
from tests.server.driving import accept, create_all, serve, shown, step
from tests.server.listening import listening
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

Run = Callable[..., Result]


@pytest.fixture
def run(house: House) -> Iterator[Run]:
    """Run a command against the server."""
    (port,) = free_ports(1)

    def invoke(*arguments: str) -> Result:
        place = {"NARTHEX_URL": f"http://127.0.0.1:{port}", "NARTHEX_TOKEN": TOKEN}
        return CliRunner(env=place).invoke(make_cli(), list(arguments))

    with listening(make_app(house.services), port, has_tasks=False):
        yield invoke


def test_commits_are_listed_by_number_and_shown_by_any_name(house: House, run: Run) -> None:
    first = serve(house, shop_definitions())
    second = serve(house, without_featuresets())

    headings, *listed = run("commits").stdout.splitlines()
    found = [run("commits", name).stdout for name in ("1", first, first[:8], first[:4].upper())]

    assert headings.split() == ["number", "commit", "state", "accepted", "by", "message"]
    assert [line.split()[:4] for line in listed] == [
        ["2", second[:8], "FINALIZED", "DONE"],
        ["1", first[:8], "FINALIZED", "DONE"],
    ]
    assert f"commit     {first}\nbranch     main, number 1\nstate      FINALIZED\n" in found[0]
    assert "assets     " in found[0]
    assert set(found) == {found[0]}


def test_a_list_of_commits_is_json_on_request(run: Run) -> None:
    assert run("commits", "--json").stdout == '{\n  "commits": []\n}\n'


@pytest.mark.parametrize("name", ["7", "abc", "zebra", "%2e%2e"])
def test_a_commit_that_does_not_exist_is_named(house: House, run: Run, name: str) -> None:
    serve(house, shop_definitions())

    refused = run("commits", name).exception

    assert isinstance(refused, ArgumentsUnfit)
    assert f"no commit of branch `main` is named `{name}`" in str(refused)


def test_a_branch_is_rolled_back_to_a_number_or_an_id(house: House, run: Run) -> None:
    first = serve(house, shop_definitions())
    serve(house, without_featuresets())

    by_id = run("rollback", first[:8])
    by_number = run("rollback", "2")
    missing = run("rollback", "12345")

    made = [str(one.commit_id) for one in house.ledger.commits.newest()]
    assert by_id.stdout == f"{made[1]}\n"
    assert "rolled back to commit 1" in by_id.stderr
    assert by_number.stdout == f"{made[0]}\n"
    assert missing.exit_code != 0


def test_a_commit_is_rejected_with_a_reason_once(house: House, run: Run) -> None:
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    waiting = accept(house.client, shop_definitions())
    create_all(house.client, waiting)
    for name in ("ready", "commit"):
        step(house.client, waiting, name)

    done = run("reject", waiting[:6], "--reason", "two columns are swapped")
    approved = run("approve", waiting[:6])

    rejected = shown(house.client, waiting)["approval"]["rejected"]
    assert done.exit_code == 0, done.output
    assert f"commit {waiting} is rejected" in done.stderr
    assert (rejected["by"], rejected["reason"]) == ("platform", "two columns are swapped")
    assert approved.exit_code != 0


def test_a_commit_is_approved_by_the_first_digits_of_its_id(house: House, run: Run) -> None:
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    waiting = accept(house.client, shop_definitions())
    create_all(house.client, waiting)
    for name in ("ready", "commit"):
        step(house.client, waiting, name)

    done = run("approve", waiting[:6])

    assert done.exit_code == 0, done.output
    assert f"commit {waiting} is approved" in done.stderr
    assert shown(house.client, waiting)["approval"]["by"] == "platform"
