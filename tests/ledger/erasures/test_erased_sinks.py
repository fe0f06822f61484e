"""Sinks in an erasure: obsolete ones delete rows and stop; only then do their successors write."""

import datetime as dt

import attrs
import pytest
import sqlalchemy as sa

from narthex._ir import SinkJobSpec
from narthex_ledger import Desired, ErasureState, JobView, NotReady
from tests.ledger.erasures.test_erasing import (
    ID,
    MEMBERS,
    OWNER,
    promoted,
    request,
)
from tests.ledger.world import FLIGHTS, World, blueprint, sink

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

WITH_SINK = blueprint(MEMBERS, sink("members", MEMBERS[1]), FLIGHTS)
SEEN = [{"target": "kafka:/members_out", "rows": 2}]
COLD = dt.timedelta(hours=2)


@pytest.fixture
def obsolete(world: World) -> World:
    """A world whose dataset `members`, which a sink writes to a topic, is obsolete."""
    world.serving(world.request(1), WITH_SINK)
    world.ledger.erasures.request(request(world))
    assert world.ledger.erasures.claim(ID, OWNER, lease_s=36_000.0)
    world.ledger.erasures.mark_obsolete(ID, OWNER)
    return world


def sinks(world: World) -> list[JobView]:
    """The jobs of sinks, the obsolete one first."""
    return [job for job in world.ledger.jobs.all() if isinstance(job.asset.spec, SinkJobSpec)]


def desired(world: World) -> list[Desired]:
    return [job.desired for job in sinks(world)]


def test_a_new_sink_waits_and_readers_flip_without_it(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)

    assert desired(obsolete) == [Desired.RUNNING, Desired.STOPPED]
    (found,) = obsolete.ledger.erasures.running_sinks(ID, OWNER)
    old, new = sinks(obsolete)
    assert found.physical_name == old.asset.physical_name
    assert found.log == old.asset.need("input:members").physical_name
    assert found.new_log == new.asset.need("input:members").physical_name
    assert found.log != found.new_log


def test_a_new_sink_writes_only_when_the_obsolete_one_has_stopped(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    erasures = obsolete.ledger.erasures
    with pytest.raises(NotReady, match="have not deleted"):
        erasures.withdrawn(ID, OWNER)

    erasures.confirm_sinks(ID, OWNER, seen=[*SEEN])
    assert desired(obsolete) == [Desired.STOPPED, Desired.STOPPED]
    with pytest.raises(NotReady, match="being stopped"):
        erasures.withdrawn(ID, OWNER)
    assert desired(obsolete) == [Desired.STOPPED, Desired.STOPPED]

    obsolete.catch_up()
    erasures.withdrawn(ID, OWNER)
    assert desired(obsolete) == [Desired.STOPPED, Desired.RUNNING]
    assert erasures.get(ID).state is ErasureState.RELEASING
    erasures.withdrawn(ID, OWNER)


def test_all_other_obsolete_jobs_stop_before_rows_are_deleted(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    erasures = obsolete.ledger.erasures

    assert len(erasures.stop_writers(ID, OWNER)) == 2, "the job and the feed of the dataset"
    obsolete.catch_up()

    assert erasures.stop_writers(ID, OWNER) == ()
    assert desired(obsolete) == [Desired.RUNNING, Desired.STOPPED]


def test_the_first_confirmation_is_kept(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    erasures = obsolete.ledger.erasures

    erasures.confirm_sinks(ID, OWNER, seen=[*SEEN])
    erasures.confirm_sinks(ID, OWNER, seen=[])

    assert erasures.get(ID).sinks == SEEN


def test_a_later_commit_does_not_start_a_waiting_sink(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)

    obsolete.serving(obsolete.request(3), WITH_SINK)

    assert desired(obsolete) == [Desired.RUNNING, Desired.STOPPED]


def test_a_sink_that_deletes_is_not_paused_when_nothing_keeps_it_warm(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    later = obsolete.at(COLD)
    later.gc.expire_pins()

    paused = later.jobs.pause_cold()

    assert paused, "other obsolete jobs are paused"
    assert desired(obsolete) == [Desired.RUNNING, Desired.STOPPED]


def test_a_paused_sink_runs_again_to_delete(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    (old, _) = sinks(obsolete)
    engine = sa.create_engine(obsolete.dsn, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        paused = sa.text("UPDATE job SET desired = 'paused' WHERE asset_id = :asset_id")
        connection.execute(paused, {"asset_id": old.asset.asset_id})

    obsolete.ledger.erasures.running_sinks(ID, OWNER)

    assert desired(obsolete) == [Desired.RUNNING, Desired.STOPPED]


def test_a_sink_without_a_successor_is_listed_without_its_log(obsolete: World) -> None:
    promoted(obsolete, wanted=WITH_SINK)
    assert obsolete.ledger.erasures.replaced_sinks(obsolete.tenant) == ()

    obsolete.serving(obsolete.request(3), blueprint(MEMBERS, FLIGHTS))

    (found,) = obsolete.ledger.erasures.running_sinks(ID, OWNER)
    assert found.new_log is None
    (replaced, again) = obsolete.ledger.erasures.replaced_sinks(obsolete.tenant)
    assert replaced == again == found.spec
    obsolete.ledger.erasures.confirm_sinks(ID, OWNER, seen=[])
    obsolete.catch_up()
    obsolete.ledger.erasures.withdrawn(ID, OWNER)
    assert desired(obsolete)[0] is Desired.STOPPED


def test_targets_that_are_left_are_kept_with_the_request(world: World) -> None:
    wanted = attrs.evolve(request(world), leave_sinks=("kafka:/members_out",))

    view = world.ledger.erasures.request(wanted)

    assert (view.leave_sinks, view.sinks) == (("kafka:/members_out",), None)
