"""A process that answers reads goes on after every other process was killed."""

import signal
from collections.abc import Iterator

import httpx
import pandas as pd
import psutil
import pytest

from narthex._processes import Process, send_signal, wait_gone
from narthex.client import Client
from narthex_stack.operator.status import load_children
from narthex_stack.processes.leftovers import leftovers
from tests.acceptance.conftest import Market
from tests.acceptance.platform import Platform, order, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

NOON = "2026-03-02T12:00:00Z"
EXPRESSIONS = ["Buyer.orders_ever", "Buyer.items", "Buyer.is_new"]
CODE = ["Buyer.weight"]
NEVER_ASKED = ["Buyer.quantity_ever", "Buyer.value_1d"]
PEOPLE = {"Buyer.user": ["kim", "nobody"]}


@pytest.fixture
def reads(market: Market) -> Iterator[Client]:
    """A client of the process that answers reads; afterwards, everything runs again."""
    settings = market.platform.settings
    client = Client(settings.reads_url, settings.token)
    yield client
    client.close()
    market.platform.stack.stop()
    market.platform.stack.start()


def ask(reads: Client, outputs: list[str]) -> dict[str, list[object]]:
    answers, _ = reads.query_columns(["Buyer.user"], outputs, PEOPLE, as_of=NOON)
    return answers


def age_s(platform: Platform) -> float:
    """Return the age of the snapshot that a query is answered from, in seconds."""
    settings = platform.settings
    answer = httpx.post(
        f"{settings.reads_url}/api/v1/query",
        json={"inputs": ["Buyer.user"], "outputs": EXPRESSIONS, "data": PEOPLE},
        headers={"authorization": f"Bearer {settings.token}"},
        timeout=60.0,
    )
    assert answer.status_code == 200
    return float(answer.headers["x-narthex-snapshot-age"])


def kill_all_but(platform: Platform, spared: Process) -> int:
    """Kill all processes of the installation but one and its descendants; return how many."""
    layout = platform.stack.layout
    operator = platform.stack.status().operator
    assert operator is not None
    send_signal(operator, signal.SIGSTOP)  # it would restart the others
    kept = {
        operator.pid,
        spared.pid,
        *(child.pid for child in psutil.Process(spared.pid).children(recursive=True)),
    }
    killed = 1
    while others := [
        process
        for process in leftovers(layout.home, load_children(layout.children))
        if process.pid not in kept
    ]:
        for process in others:
            send_signal(process, signal.SIGKILL)
        killed += len(others)
        assert not wait_gone(others, within_s=10.0)
    send_signal(operator, signal.SIGKILL)
    assert not wait_gone([operator], within_s=10.0)
    return killed


def test_reads_go_on_when_everything_else_was_killed(market: Market, reads: Client) -> None:
    platform = market.platform
    platform.log("orders", [order("kim", "2026-03-02T10:00:00Z", quantity=3)])
    wait_until(
        lambda: ask(reads, ["Buyer.orders_ever"])["Buyer.orders_ever"] == [1, 0],
        within_s=90.0,
        what="the order is read",
    )
    before = ask(reads, EXPRESSIONS) | ask(reads, CODE)
    process = platform.service("reads").process
    assert process is not None

    killed = kill_all_but(platform, process)

    assert killed > 10
    assert ask(reads, EXPRESSIONS) | ask(reads, CODE) == before
    assert ask(reads, NEVER_ASKED) == {"Buyer.quantity_ever": [3, 0], "Buyer.value_1d": [6.0, 0.0]}
    orders, found = reads.lookup("Spend", pd.DataFrame({"user": ["kim"]}), ["orders_ever"])
    assert (orders.tolist(), found.tolist()) == ([1], [True])
    wait_until(lambda: age_s(platform) > 3.0, within_s=30.0, what="the age is in the header")
    assert ask(reads, EXPRESSIONS) == {name: before[name] for name in EXPRESSIONS}
