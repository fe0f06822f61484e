"""Examples of calls that only a server answers show what a server answers."""

import datetime as dt
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest

from docs.reference_examples import examples_of
from narthex._drift import FeatureKind, summary_of
from narthex.client import Client
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.driving import store_summaries
from tests.server.listening import listening
from tests.server.test_guide import supervise
from tests.sessions import ELSEWHERE, asks_server, differences, names_of_head

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

CLIENT: Final = examples_of("narthex.client")
HERE: Final = [
    name
    for name, section in CLIENT.sections.items()
    if asks_server(section) and name not in ELSEWHERE
]
DAYS: Final = {1: [4.0, 6.5, 9.0] * 100, 2: [40.0, 65.0, 90.0] * 100}
"""The spend in logged answers, and the amounts of payments, of two days of March."""


@pytest.fixture(scope="module")
def given(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[Mapping[str, object]]:
    """A server that the examples call one after the other, and a client of it."""
    (port,) = free_ports(1)
    home = tmp_path_factory.mktemp("served")
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=NOBODY),
        server_url=f"http://127.0.0.1:{port}",
        run_job=str(home / "run_job.py"),
    )
    Path(settings.run_job).write_text("")
    with house_at(settings, adapters=in_memory()) as house:
        stop = threading.Event()
        supervising = threading.Thread(target=supervise, args=(house, stop, 0.05))
        with listening(make_app(house.services), port):
            supervising.start()
            names = {"url": settings.server_url, "token": TOKEN}
            client = Client(settings.server_url, TOKEN, pause_s=0.05)
            head = names_of_head(CLIENT)
            client.commit("spend", [head["Payments"], head["Spend"]], [head["Buyer"]])
            _store_summaries(house)
            yield {**names, "server": client}
            client.close()
            stop.set()
            supervising.join()


def _store_summaries(house: House) -> None:
    """Store counts of logged answers and of rows, as the scheduled tasks do."""
    of_answers, of_rows = [], []
    for day, values in DAYS.items():
        hour = dt.datetime(2024, 3, day, 10, tzinfo=dt.UTC).isoformat()
        one = {
            "branch": "main",
            "hour": hour,
            "summary": summary_of(values, FeatureKind.NUMBER).plain(),
        }
        of_answers.append({**one, "feature": "Buyer.spent"})
        of_rows.append({**one, "dataset": "Payments", "column": "amount"})
    store_summaries(house, of_answers, of_rows)


@pytest.mark.parametrize("name", HERE)
def test_an_example_shows_what_a_server_answers(name: str, given: Mapping[str, object]) -> None:
    server = given["server"]
    assert isinstance(server, Client)
    server.checkout("main")

    told = differences(CLIENT, name, given)

    assert not told, "".join(told)
