"""A call with a key is one record, whichever process it reaches and whichever has died."""

import datetime as dt
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex_ledger import IdempotencyKeyReused, Ledger
from narthex_server.services import idempotency
from narthex_server.services.idempotency import IdempotencyKeyStore
from narthex_stores import Delivered, TransientError
from tests.server.conftest import House, house_at, settings_at
from tests.server.data.test_log import GOOD, ingest_topic, log, records
from tests.server.driving import deploy
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

WITHIN = dt.timedelta(seconds=idempotency.IN_DOUBT_S)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[tuple[House, House]]:
    """Two servers of one installation."""
    home: Path = tmp_path_factory.mktemp("pair")
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap), install_id="pair0000"
    )
    with house_at(settings) as one, house_at(settings) as other:
        deploy(one.client, shop_definitions())
        yield one, other


def later(house: House) -> Ledger:
    """Open the ledger as somebody who comes when no append can be under way any more."""
    return Ledger(house.services.settings.ledger_dsn, clock_shift=WITHIN * 2)


def test_the_same_call_to_two_servers_is_one_record(pair: tuple[House, House]) -> None:
    one, other = pair
    before = len(records(one))
    key = {"idempotency-key": "to-two-servers"}

    answers = [log(one, [GOOD], **key), log(other, [GOOD], **key)]
    reused = log(other, [{**GOOD, "user": "bob"}], **key)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert len(records(one)) == before + 1
    assert reused.status_code == 409


def test_many_at_once_to_two_servers_are_one_record(pair: tuple[House, House]) -> None:
    before = len(records(pair[0]))
    answers: list[Any] = []

    def call(house: House) -> None:
        answers.append(log(house, [GOOD], **{"idempotency-key": "many-at-once"}))

    calls = [threading.Thread(target=call, args=(pair[n % 2],)) for n in range(6)]
    for one in calls:
        one.start()
    for one in calls:
        one.join()

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(records(pair[0])) == before + 1


def test_a_call_whose_process_died_before_it_appended_is_appended_once(
    pair: tuple[House, House],
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    before = len(records(one))

    with pytest.raises(ProcessDied):
        _once(one, one.ledger).append(topic, "died-before", b"{}", _die)
    ledger = later(one)
    stands = _once(one, ledger).append(topic, "died-before", b"{}", _appending(one, "died-before"))
    again = _once(one, ledger).append(topic, "died-before", b"{}", _die)
    ledger.close()

    assert stands == again
    assert len(records(one)) == before + 1


def test_a_call_whose_process_died_after_it_appended_is_found_in_the_log(
    pair: tuple[House, House],
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    before = len(records(one))

    def appended_and_died() -> "Future[Delivered]":
        _appending(one, "died-after")().result(timeout=30)
        raise ProcessDied

    with pytest.raises(ProcessDied):
        _once(one, one.ledger).append(topic, "died-after", b"{}", appended_and_died)
    ledger = later(one)
    found = _once(one, ledger).append(topic, "died-after", b"{}", _die)
    ledger.close()

    assert found.offset == before
    assert len(records(one)) == before + 1


def test_a_call_in_the_log_whose_process_died_is_acknowledged_at_once(
    pair: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    before = len(records(one))
    monkeypatch.setattr(idempotency, "WAIT_S", 0.0)

    def appended_and_died() -> "Future[Delivered]":
        _appending(one, "died-in-log")().result(timeout=30)
        raise ProcessDied

    with pytest.raises(ProcessDied):
        _once(one, one.ledger).append(topic, "died-in-log", b"{}", appended_and_died)
    with pytest.raises(IdempotencyKeyReused):
        _once(one, one.ledger).append(topic, "died-in-log", b"other", _die)
    found = _once(one, one.ledger).append(topic, "died-in-log", b"{}", _die)
    again = _once(one, one.ledger).append(topic, "died-in-log", b"{}", _die)

    assert found == again
    assert found.offset == before
    assert len(records(one)) == before + 1


def test_no_other_call_appends_while_an_append_is_unresolved(
    pair: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    monkeypatch.setattr(idempotency, "WAIT_S", 0.0)

    with pytest.raises(ProcessDied):
        _once(one, one.ledger).append(topic, "in-doubt", b"{}", _die)
    with pytest.raises(TransientError, match="being appended"):
        _once(one, one.ledger).append(topic, "in-doubt", b"{}", _die)
    with pytest.raises(IdempotencyKeyReused):
        _once(one, one.ledger).append(topic, "in-doubt", b"other", _die)


def test_a_call_that_the_broker_takes_too_late_is_acknowledged_when_it_comes_again(
    pair: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    before = len(records(one))
    monkeypatch.setattr(idempotency, "WAIT_S", 0.0)
    process = _once(one, one.ledger)
    slow: Future[Delivered] = Future()

    monkeypatch.setattr(idempotency, "DELIVERY_S", 0.0)
    with pytest.raises(TransientError, match="in time"):
        process.append(topic, "too-late", b"{}", lambda: slow)
    with pytest.raises(TransientError, match="in time"):
        process.append(topic, "too-late", b"{}", _die)
    with pytest.raises(TransientError, match="being appended"):
        _once(one, one.ledger).append(topic, "too-late", b"{}", _die)
    slow.set_result(_appending(one, "too-late")().result(timeout=30))
    stands = process.append(topic, "too-late", b"{}", _die)
    elsewhere = _once(one, one.ledger).append(topic, "too-late", b"{}", _die)

    assert stands == elsewhere == slow.result()
    assert len(records(one)) == before + 1


def test_a_call_that_the_broker_refused_late_is_appended_when_it_comes_again(
    pair: tuple[House, House], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    topic = ingest_topic(one)
    before = len(records(one))
    process = _once(one, one.ledger)
    slow: Future[Delivered] = Future()

    with monkeypatch.context() as hasty:
        hasty.setattr(idempotency, "DELIVERY_S", 0.0)
        with pytest.raises(TransientError, match="in time"):
            process.append(topic, "refused-late", b"{}", lambda: slow)
    slow.set_exception(TransientError("the producer gave up"))
    with pytest.raises(TransientError, match="gave up"):
        process.append(topic, "refused-late", b"{}", _die)
    stands = process.append(topic, "refused-late", b"{}", _appending(one, "refused-late"))
    again = process.append(topic, "refused-late", b"{}", _die)

    assert stands == again
    assert len(records(one)) == before + 1


def test_old_calls_are_forgotten(pair: tuple[House, House]) -> None:
    one, _ = pair
    log(one, [GOOD], **{"idempotency-key": "an-old-call"})

    assert one.ledger.webhook_calls.forget(older_than=dt.timedelta(days=1)) == 0
    ledger = later(one)
    assert ledger.webhook_calls.forget(older_than=dt.timedelta(0)) > 0
    ledger.close()


class ProcessDied(Exception):
    """The process ended here."""


def _die() -> "Future[Delivered]":
    raise ProcessDied


def _once(house: House, ledger: Ledger) -> IdempotencyKeyStore:
    """Return what another process of the server would have."""
    return IdempotencyKeyStore(ledger, house.services.once.open_reader)


def _appending(house: House, key: str) -> idempotency.Append:
    return lambda: house.services.producer.append(
        ingest_topic(house), key=None, value=b"{}", headers={idempotency.KEY_HEADER: key}
    )
