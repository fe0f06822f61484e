"""The asynchronous client against a real server: the answers and errors of the other client."""

import asyncio
from collections.abc import Iterator

import pandas as pd
import pytest

from docs.reference_examples import examples_of
from narthex.client import AsyncClient, Client
from narthex.errors import ArgumentsUnfit, Refused, Unreachable
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.core.client.test_client import Stub, stub
from tests.server.conftest import TOKEN
from tests.server.listening import listening
from tests.server.reads.test_reads import AS_OF, Card, Owners, Reads, reads
from tests.sessions import differences, run_by

__all__ = ["reads", "stub"]

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

CARDS = pd.DataFrame({"Card.card": ["a", "b"]})
AT_ONCE = 20


@pytest.fixture
def url(reads: Reads) -> Iterator[str]:
    (port,) = free_ports(1)
    with listening(reads.handler, port, has_tasks=False):
        yield f"http://127.0.0.1:{port}"


def test_queries_at_once_have_the_answers_of_the_other_client(url: str) -> None:
    async def asked() -> list[pd.DataFrame]:
        async with AsyncClient(url, TOKEN) as client:
            calls = [
                client.query([Card.card], [Card.city, Card.length], CARDS, as_of=AS_OF)
                for _ in range(AT_ONCE)
            ]
            answers = await asyncio.gather(*calls)
        assert len({read.commit_id for _, read in answers if read is not None}) == 1
        return [frame for frame, _ in answers]

    frames = asyncio.run(asked())
    other = Client(url, TOKEN).query([Card.card], [Card.city, Card.length], CARDS, as_of=AS_OF)

    assert frames[0]["Card.city"].tolist() == ["Rome", "nowhere"]
    assert len(frames) == AT_ONCE
    for frame in frames:
        pd.testing.assert_frame_equal(frame, other)


def test_a_lookup_has_the_rows_of_the_other_client(url: str) -> None:
    keys = pd.DataFrame({"card": ["a", "b"]})

    async def looked_up() -> tuple[pd.DataFrame | pd.Series, pd.Series]:
        async with AsyncClient(url, TOKEN) as client:
            return await client.lookup(Owners, keys, timestamps=[AS_OF, AS_OF])

    rows, found = asyncio.run(looked_up())
    others, others_found = Client(url, TOKEN).lookup(Owners, keys, timestamps=[AS_OF, AS_OF])

    assert isinstance(rows, pd.DataFrame)
    assert isinstance(others, pd.DataFrame)
    assert found.tolist() == [True, False]
    pd.testing.assert_frame_equal(rows, others)
    pd.testing.assert_series_equal(found, others_found)


def test_errors_are_those_of_the_other_client(url: str, reads: Reads) -> None:
    (port,) = free_ports(1)

    async def refused() -> None:
        async with AsyncClient(url, "wrong") as client:
            await client.query(["Card.card"], ["Card.city"], CARDS)

    async def unreachable() -> None:
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            await client.query(["Card.card"], ["Card.city"], CARDS)

    async def without_a_column() -> None:
        async with AsyncClient(url, TOKEN) as client:
            await client.query(["Card.other"], ["Card.city"], CARDS)

    async def unknown_endpoint(server: str) -> None:
        async with AsyncClient(server, TOKEN) as client:
            await client.log("bank", "nothing", pd.DataFrame({"card": ["a"]}))

    for call, error in (
        (refused, Refused),
        (unreachable, Unreachable),
        (without_a_column, ArgumentsUnfit),
    ):
        with pytest.raises(error):
            asyncio.run(call())
    with (
        listening(make_app(reads.house.services), port, has_tasks=False),
        pytest.raises(Refused, match="nothing"),
    ):
        asyncio.run(unknown_endpoint(f"http://127.0.0.1:{port}"))


def test_rows_are_pushed_in_batches(stub: Stub) -> None:
    stub.answer("log", {"unread": {"x": 1}}, {"unread": {"x": 2}})
    rows = pd.DataFrame({"card": ["a", "b", "c"], "x": [1, 2, 3]})

    async def pushed() -> object:
        async with AsyncClient(stub.url, "word", "dev") as client:
            assert client.branch() == "dev"
            answer = await client.log("bank", "owners", rows, batch_size=2)
        return answer and answer.body["unread"]

    assert asyncio.run(pushed()) == {"x": 3}
    assert [call.json["data"]["card"] for call in stub.calls] == [["a", "b"], ["c"]]
    assert len({call.headers["idempotency-key"] for call in stub.calls}) == 2
    assert {call.headers["x-narthex-branch"] for call in stub.calls} == {"dev"}


def test_a_server_with_too_many_requests_is_asked_again(stub: Stub) -> None:
    stub.answer("query", {"err_msg": "too many"}, status=429, retry_after="0")
    stub.answers["query"].append((200, {"Card.city": ["Rome"]}, {}))

    async def asked() -> pd.DataFrame:
        async with AsyncClient(stub.url) as client:
            frame, _ = await client.query(
                ["Card.card"], ["Card.city"], pd.DataFrame({"Card.card": ["a"]})
            )
        return frame

    assert asyncio.run(asked())["Card.city"].tolist() == ["Rome"]
    assert len(stub.calls) == 2


@pytest.mark.parametrize("name", run_by(__name__))
def test_an_example_of_the_reference_shows_the_answer(name: str, url: str) -> None:
    told = differences(examples_of("narthex.client"), name, {"url": url, "token": TOKEN})

    assert not told, "".join(told)
