"""How much of a log an index takes in one transaction."""

import attrs

from narthex_spark_apps.platform.log_consumer import (
    BACKLOG_RECORDS,
    FAR_BEHIND,
    POLL_RECORDS,
    poll_together,
)
from narthex_stores import Record


def records(topic: str, count: int) -> list[Record]:
    return [Record(topic, 0, number, 0, None, b"", ()) for number in range(count)]


@attrs.define
class Log:
    """Logs in the order in which polls would meet their records."""

    standing: list[Record]
    polls: list[int] = attrs.field(factory=list)

    def poll(self, *, max_records: int, timeout_s: float) -> list[Record]:
        del timeout_s
        self.polls.append(max_records)
        found, self.standing = self.standing[:max_records], self.standing[max_records:]
        return found


def test_few_records_are_not_waited_with() -> None:
    log = Log(records("a", FAR_BEHIND - 1))

    assert len(poll_together(log, timeout_s=0.1)) == FAR_BEHIND - 1
    assert log.polls == [POLL_RECORDS]


def test_a_log_that_is_far_behind_is_read_in_large_batches() -> None:
    log = Log(records("a", BACKLOG_RECORDS + 5))

    found = poll_together(log, timeout_s=0.1)

    assert [record.offset for record in found] == list(range(BACKLOG_RECORDS))
    assert len(log.standing) == 5


def test_its_end_ends_it() -> None:
    log = Log(records("a", POLL_RECORDS + 7))

    assert len(poll_together(log, timeout_s=0.1)) == POLL_RECORDS + 7
    assert len(log.polls) == 2


def test_a_record_of_another_log_is_not_delayed() -> None:
    log = Log([*records("a", POLL_RECORDS), *records("b", 1), *records("a", BACKLOG_RECORDS)])

    found = poll_together(log, timeout_s=0.1)

    assert len(found) == 2 * POLL_RECORDS
    assert sum(record.topic == "b" for record in found) == 1
