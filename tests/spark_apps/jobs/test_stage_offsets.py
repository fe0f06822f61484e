"""The positions of a stage are on its broker; a later owner of the job replaces an earlier one."""

from collections.abc import Iterator

import pytest

from narthex_spark_apps.jobs.stage_offsets import StagePositions
from narthex_stores import IndexFenced, LogReader, PartitionKey, PermanentError
from tests.shared_services import fresh_name
from tests.spark_apps.conftest import Log

pytestmark = [pytest.mark.kafka]


@pytest.fixture
def reader(kafka_bootstrap: str) -> Iterator[LogReader]:
    """Return a reader whose group no other test has."""
    with LogReader(kafka_bootstrap, group=fresh_name("positions")) as opened:
        yield opened


@pytest.fixture
def places(log: Log) -> list[PartitionKey]:
    """Return the partitions of a topic of this test's own."""
    topic = log.topic("read", partitions=2)
    return [(topic, 0), (topic, 1)]


def under(reader: LogReader, epoch: int) -> StagePositions:
    return StagePositions(reader.group_offsets, epoch=epoch)


def test_committed_positions_are_found_again_and_a_new_partition_has_none(
    reader: LogReader, places: list[PartitionKey]
) -> None:
    before = under(reader, 1).load(places)
    under(reader, 1).keep({places[0]: 5})

    assert before == {}
    assert under(reader, 1).load(places) == {places[0]: 5}
    assert under(reader, 7).load(places) == {places[0]: 5}


def test_an_owner_with_an_earlier_epoch_is_refused_and_commits_nothing(
    reader: LogReader, places: list[PartitionKey]
) -> None:
    older, newer = under(reader, 1), under(reader, 2)
    older.keep(dict.fromkeys(places, 9))
    newer.keep({places[0]: 5})

    for attempt in (lambda: older.keep({places[0]: 9}), lambda: older.load(places)):
        with pytest.raises(IndexFenced, match="epoch 1 must stop"):
            attempt()
    assert newer.load(places) == {places[0]: 5, places[1]: 9}


def test_offsets_that_another_program_committed_are_positions_of_no_epoch(
    reader: LogReader, places: list[PartitionKey]
) -> None:
    for note in ("", "not ours", "[1]", '{"epoch": null}'):
        reader.group_offsets.commit({places[0]: 3}, note=note)
        assert under(reader, 0).load(places) == {places[0]: 3}


def test_a_commit_for_a_topic_that_does_not_exist_is_an_error(reader: LogReader) -> None:
    with pytest.raises(PermanentError, match="UNKNOWN_TOPIC_OR_PART"):
        under(reader, 1).keep({("never-created", 0): 1})
