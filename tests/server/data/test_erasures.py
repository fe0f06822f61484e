# ruff: noqa: ANN001, ANN201, N805
"""Rows are erased over the API: blocked at once, removed from real stores, and certified."""

import datetime as dt
import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import attrs
import pytest

from narthex._drift import FeatureKind, summary_of
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Kafka, Webhook, sink, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs
from narthex_ledger import HourSummary, ValueDiffView
from narthex_stores import LogReader, Needle, search_topic
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import report_caught_up, serve

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

__owner__ = "club@narthex.dev"
ERASED, KEPT = "hedwig-erased-7031", "konrad-kept-2290"
ERASED_S = 150.0
TARGET = "kafka:/newsletter"


@source(Webhook(name="club").endpoint("members"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Members:
    person: str = field(key=True, erase_key=True)
    club: str
    since: datetime = field(timestamp=True)


@dataset(index=True)
class Clubs:
    club: str = field(key=True)
    members: int
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def joined(cls, members):
        return members.groupby("club").aggregate(members=Count(window=Continuous("forever")))


@sink(Kafka("bus", "").topic("newsletter"), cdc="debezium")
@dataset(index=True)
class Readers:
    person: str = field(key=True)
    club: str
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def all(cls, members):
        return members.filter(col("club") != "")


@source(Webhook(name="club").endpoint("rooms"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Rooms:
    room: str = field(key=True)
    seats: int
    since: datetime = field(timestamp=True)


@featureset
class Asked:
    """The keys by which members are looked up."""

    person: str


@featureset
class Membership:
    person: str = feature(Asked.person)
    club: str = feature(Members.club, default="none")


@featureset
class Room:
    room: str
    seats: int = feature(Rooms.seats, default=0)


@pytest.fixture
def club(
    tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    home = tmp_path_factory.mktemp("club")
    settings = settings_at(home, dsn=ledger_dsn, kafka=kafka_bootstrap)
    rule = '[[topics]]\nname = "newsletter"\nbranches = ["main"]\nwrite = true\n'
    settings.policy_file.write_text(rule)
    with house_at(attrs.evolve(settings, install_id="erase000")) as house:
        serve(house, definitions([Members, Clubs, Readers, Rooms], [Asked, Membership, Room]))
        yield house


def row(person: str) -> dict[str, str]:
    return {"person": person, "club": "chess", "since": "2026-05-01T08:00:00Z"}


def log(house: House, *persons: str, key: str = "") -> Any:
    return house.client.post(
        "/api/v1/log",
        json={"webhook": "club", "endpoint": "members", "data": [row(one) for one in persons]},
        headers={"idempotency-key": key} if key else {},
    )


def ingest_topic(house: House) -> str:
    return house.services.snapshots.head("main").topic("webhook/club/members/ingest")


def erase(
    house: House,
    *persons: str,
    dataset_name: str = "Members",
    key: str = "erase-0001",
    leave_sinks: Sequence[str] = (TARGET,),
) -> Any:
    return house.client.post(
        f"/api/v1/dataset/{dataset_name}/erase",
        json={"erase_keys": [{"person": one} for one in persons], "leave_sinks": [*leave_sinks]},
        headers={"idempotency-key": key},
    )


def certified(house: House, erasure_id: str) -> dict[str, Any]:
    """Take the turns of the server's loops and of a supervisor, until the end."""
    found: dict[str, Any] = {}
    ends_at = time.monotonic() + ERASED_S
    while time.monotonic() < ends_at:
        house.services.eraser.look()
        house.services.recovery.look()
        report_caught_up(house)
        found = house.client.get(f"/api/v1/erasures/{erasure_id}").json()
        if found["state"] == "certified":
            return found
        time.sleep(0.2)
    raise AssertionError(f"not certified: {found['state']}, {found['waits_for']}")


def records(house: House, topic: str) -> list[list[str]]:
    with LogReader(house.services.settings.kafka) as reader:
        (end,) = reader.end_offsets([topic]).values()
        reader.assign({(topic, 0): 0})
        found: list[list[str]] = []
        while len(found) < end:
            found += [
                [one["person"] for one in json.loads(record.value or b"")["rows"]]
                for record in reader.poll(max_records=100, timeout_s=5.0)
            ]
    return found


def check_verification(house: House, found: dict[str, Any]) -> None:
    """The certificate is valid and covers the key; a changed one is not valid."""
    asked = {
        "certificate": found["certificate"],
        "signature": found["signature"],
        "key": {"person": ERASED},
    }
    verified = house.client.post("/api/v1/erasures/verify", json=asked).json()
    assert verified == {"is_valid": True, "why": "", "covers": True}
    asked["certificate"] = {**found["certificate"], "dataset": "Clubs"}
    assert not house.client.post("/api/v1/erasures/verify", json=asked).json()["is_valid"]


def check_sinks(certificate: dict[str, Any]) -> None:
    """The certificate says where rows are that it does not cover, and what to do there."""
    (left,) = certificate["sinks"]
    assert (left["target"], left["dataset"], left["is_erased"]) == (TARGET, "Readers", False)
    assert "without a value" in left["to_do"]


def store_statistics(house: House) -> None:
    """Store statistics of columns and features, whose most frequent values may be a person's."""
    hour = dt.datetime.now(tz=dt.UTC).replace(minute=0, second=0, microsecond=0)
    summary = summary_of([ERASED, KEPT], FeatureKind.CATEGORY)
    house.ledger.feature_summaries.replace(
        [
            HourSummary(branch="main", feature=column, hour=hour, summary=summary)
            for column in (
                *("Members.club", "Clubs.members", "Rooms.seats"),
                *("Asked.person", "Membership.club", "Room.seats", "Dropped.text"),
            )
        ]
    )
    for name, one in (("of asked", "Asked.person"), ("of rooms", "Room.seats")):
        house.ledger.drift.pin("main", name, (hour, hour + dt.timedelta(hours=1)), {one: summary})


def store_differences(house: House) -> None:
    """Store a diff of values, whose examples have a person's."""
    commit_id = house.services.snapshots.head("main").commit_id
    house.ledger.value_diffs.record(
        ValueDiffView(commit_id=commit_id, dataset="Members", result={}, examples=[[ERASED]])
    )


def store_summaries(house: House) -> None:
    store_statistics(house)
    store_differences(house)


def summarized(house: House) -> tuple[set[tuple[str, str]], list[str]]:
    """The branches and names with statistics, and the pinned windows."""
    windows = [one.name for one in house.ledger.drift.windows("main")]
    return set(house.ledger.feature_summaries.newest_hours()), windows


@pytest.mark.slow
def test_rows_are_blocked_removed_and_certified(club: House) -> None:
    assert log(club, ERASED, KEPT, key="call-0001").status_code == 200
    assert log(club, KEPT).status_code == 200
    old = ingest_topic(club)
    needles = [Needle(cells={"person": ERASED})]
    assert search_topic(club.services.settings.kafka, old, needles).found

    # The audit log has the key of a call, and cannot be changed: the certificate says so.
    club.client.post("/api/v1/dataset/Members/erase", headers={"idempotency-key": ERASED}, json={})
    answer = erase(club, ERASED)
    assert answer.status_code == 200, answer.text
    erasure_id = answer.json()["erasure_id"]
    assert answer.json()["state"] == "requested"
    assert erase(club, ERASED).json()["erasure_id"] == erasure_id, "the same request again"
    blocked = log(club, ERASED)
    assert blocked.json() == {"accepted": 0, "left_out": 0, "erased": 1}

    store_summaries(club)
    found = certified(club, erasure_id)

    assert summarized(club) == ({("main", "Rooms"), ("main", "Room")}, ["of rooms"])
    new = ingest_topic(club)
    assert new != old
    # An empty record of the probe may follow.
    assert [one for one in records(club, new) if one] == [[KEPT], [KEPT]]
    assert search_topic(club.services.settings.kafka, old, needles).items == 0
    certificate = found["certificate"]
    assert old in certificate["destroyed"]
    assert ERASED not in json.dumps(found)
    assert certificate["kept"] == [{"store": "table control_log of the ledger", "items": 1}]
    again = log(club, KEPT, ERASED)
    assert (again.json()["accepted"], again.json()["erased"]) == (1, 1)
    check_verification(club, found)
    check_sinks(certificate)
    listed = club.client.get("/api/v1/erasures").json()["erasures"]
    assert [one["erasure_id"] for one in listed] == [erasure_id]


def test_erasures_that_would_not_be_whole_are_refused_by_name(club: House) -> None:
    computed = club.client.post(
        "/api/v1/dataset/Clubs/erase", json={"erase_keys": [{"club": "chess"}]}
    )
    assert computed.status_code == 400
    assert "`Clubs` cannot be erased: it is computed from others" in computed.text
    assert "erase them from `Members` by `person`" in computed.text
    unknown = erase(club, ERASED, dataset_name="Nobody")
    assert unknown.status_code == 404
    wrong = club.client.post(
        "/api/v1/dataset/Members/erase", json={"erase_keys": [{"club": ERASED}]}
    )
    assert wrong.status_code == 400
    assert ERASED not in wrong.text
    assert club.ledger.erasures.newest(club.services.tenant) == ()


def test_a_sink_with_the_rows_must_be_named(club: House) -> None:
    unnamed = erase(club, ERASED, leave_sinks=())
    assert unnamed.status_code == 400
    assert "NX901" in unnamed.text
    assert f"`{TARGET}` has rows of `Readers`" in unnamed.text
    wrong = erase(club, ERASED, leave_sinks=[TARGET, "kafka:/other"])
    assert wrong.status_code == 400
    assert f"no sink with the rows writes to `kafka:/other`; the targets: `{TARGET}`" in wrong.text
    assert club.ledger.erasures.newest(club.services.tenant) == ()
    assert log(club, ERASED).json()["accepted"] == 1, "nothing was blocked"


def test_only_tokens_with_the_right_erase(club: House) -> None:
    made = club.client.post(
        "/api/v1/tokens", json={"name": "ada", "scopes": ["author"], "branches": ["*"]}
    )
    token = made.json()["token"]

    answer = club.client.post(
        "/api/v1/dataset/Members/erase",
        json={"erase_keys": [{"person": ERASED}]},
        headers={"authorization": f"Bearer {token}"},
    )

    assert answer.status_code == 403
