"""The rates of jobs, the servers of an index store, and the report of a run."""

import datetime as dt

import pytest

from tests.hosts.capacity import Samples
from tests.hosts.index_store import members_of

NODES = """\
a1 10.77.0.1:6379@16379 myself,master - 0 1 1 connected 0-100 200 [201-<-b2]
b2 10.77.0.2:6379@16379,second slave a1 0 1 1 connected
c3 :0@0 master,fail,noaddr - 0 1 3 disconnected
"""


def job(second: int, *offsets: int) -> dict[str, object]:
    """Return a job that reports how far it has read the partitions of its topic."""
    at = dt.datetime(2026, 3, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
    read = {str(number): offset for number, offset in enumerate(offsets)}
    return {
        "label": "Approved.with_merchant",
        "kind": "stream_job",
        "reported_at": at.isoformat(),
        "shards": [{}, {}],
        "progress": {"offsets": {"payments": read}},
    }


def test_a_rate_begins_with_the_last_report_before_the_backlog() -> None:
    samples = Samples()
    for second, *offsets in [(0, 5, 5), (7, 5, 5), (10, 105, 5), (12, 205, 105), (20, 205, 105)]:
        samples.take([job(second, *offsets)])

    (rate,) = samples.rates(least=100)

    assert (rate.records, rate.seconds, rate.shards) == (300, 5.0, 2)
    assert rate.per_shard == pytest.approx(30.0)


def test_a_job_with_a_part_of_the_backlog_has_no_rate() -> None:
    samples = Samples()
    samples.take([job(0, 0)])
    samples.take([job(1, 99)])

    assert samples.rates(least=100) == []


def test_the_members_of_an_index_store_have_slots_replicas_and_links() -> None:
    first, second, lost = members_of(NODES)

    assert (first.host, first.slots, first.is_linked) == (
        "10.77.0.1",
        (range(101), range(200, 201)),
        True,
    )
    assert (second.primary, second.has_slots, second.is_linked) == ("a1", False, True)
    assert (lost.host, lost.is_linked) == ("", False)
