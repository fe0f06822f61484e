"""Erasures in the ledger: keys are blocked, assets obsolete, replaced, released and destroyed."""

from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa

from narthex._ir.assets import AssetKind, Blueprint
from narthex_ledger import (
    BlockedSource,
    BranchRequest,
    CommitKind,
    CommitRequest,
    ErasureRequest,
    ErasureState,
    Fenced,
    IdempotencyKeyReused,
    Ledger,
    LedgerRefused,
    NotPinned,
    NotReady,
    NotSigned,
    Signer,
    unsupported,
)
from tests.ledger.world import (
    FLIGHTS,
    LATER,
    World,
    blueprint,
    erasable,
    fingerprint,
)

pytestmark = pytest.mark.postgres

ID = UUID(int=77)
OWNER = "eraser-1"
DIGEST = fingerprint("a key")


MEMBERS = erasable("members")
BOTH = blueprint(MEMBERS, FLIGHTS)


def request(world: World, *, digests: tuple[bytes, ...] = (DIGEST,)) -> ErasureRequest:
    return ErasureRequest(
        erasure_id=ID,
        tenant=world.tenant,
        branch="main",
        dataset="members",
        fields=("person",),
        actor="ada",
        request_sha256=fingerprint(f"request {digests!r}"),
        digests=digests,
        sealed={"value": "sealed"},
        sources=(BlockedSource(endpoint="w/members", dataset="members", form={"a": 1}),),
    )


def erase_commit(world: World, number: int) -> CommitRequest:
    return attrs.evolve(world.request(number), kind=CommitKind.ERASE)


def branch_request(world: World, number: int, name: str) -> BranchRequest:
    return BranchRequest(
        commit_id=UUID(int=number),
        tenant=world.tenant,
        name=name,
        idempotency_key=f"key-of-branch-{number}",
        request_sha256=fingerprint(f"branch {number} {name}"),
        actor="ada",
    )


@pytest.fixture
def obsolete(world: World) -> World:
    """A world with a commit that readers read, whose dataset `members` is obsolete."""
    world.serving(world.request(1), BOTH)
    world.ledger.erasures.request(request(world))
    assert world.ledger.erasures.claim(ID, OWNER, lease_s=600.0)
    world.ledger.erasures.mark_obsolete(ID, OWNER)
    return world


def replaced(world: World, number: int = 2, *, wanted: Blueprint = BOTH) -> UUID:
    """Take an erasure to the moment after its endpoints' records were copied."""
    commit_id, fence = world.planned(erase_commit(world, number), wanted)
    world.create(commit_id, fence)
    erasures = world.ledger.erasures
    erasures.hold(ID, OWNER)
    (successor,) = erasures.successors(ID)
    erasures.filled(ID, OWNER, successor)
    world.ledger.commits.ready(commit_id, fence)
    world.ledger.commits.commit_point(commit_id, fence)
    erasures.deployed(ID, OWNER)
    return commit_id


def withdrawn(world: World) -> None:
    """Let no sink delete anything."""
    world.ledger.erasures.stop_writers(ID, OWNER)
    world.ledger.erasures.confirm_sinks(ID, OWNER, seen=[])
    world.ledger.erasures.withdrawn(ID, OWNER)


def promoted(world: World, *, wanted: Blueprint = BOTH) -> None:
    commit_id = replaced(world, wanted=wanted)
    world.backfill(commit_id)
    fence = world.ledger.commits.claim(commit_id, "executor-1")
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence
    world.ledger.promotions.promote(commit_id, fence, evidence=evidence)
    world.ledger.commits.finalize(commit_id, fence)


def names(world: World, commit_id: UUID) -> dict[str, str]:
    found = world.ledger.commits.get(commit_id).assets
    return {asset.label: asset.physical_name for asset in found}


def test_keys_are_blocked_from_the_request_on(world: World) -> None:
    world.serving(world.request(1), BOTH)
    erasures = world.ledger.erasures
    assert erasures.blocked(world.tenant, "members", [DIGEST]) == frozenset()

    view = erasures.request(request(world))

    assert view.state is ErasureState.REQUESTED
    other = fingerprint("another key")
    assert erasures.blocked(world.tenant, "members", [DIGEST, other]) == {DIGEST}
    assert erasures.blocked(world.tenant, "flights", [DIGEST]) == frozenset()
    (source,) = erasures.blocked_sources(world.tenant, "w/members")
    assert (source.dataset, source.form) == ("members", {"a": 1})
    assert erasures.request(request(world)) == view
    with pytest.raises(IdempotencyKeyReused):
        erasures.request(request(world, digests=(other,)))


def test_a_later_plan_creates_successors_of_obsolete_assets_and_shares_the_others(
    obsolete: World,
) -> None:
    before = names(obsolete, UUID(int=1))
    (owed,) = obsolete.ledger.erasures.owed(ID)
    assert (owed.name, owed.head_seq, owed.in_flight) == ("main", 1, None)

    commit_id, fence = obsolete.planned(erase_commit(obsolete, 2), BOTH)

    after = names(obsolete, commit_id)
    assert {label for label in before if before[label] != after[label]} == {
        asset.paths[0] for asset in MEMBERS
    }
    (owed,) = obsolete.ledger.erasures.owed(ID)
    assert (owed.in_flight, owed.is_at_gate) == (commit_id, False)
    obsolete.create(commit_id, fence)
    assert obsolete.ledger.erasures.owed(ID)[0].is_at_gate


def test_a_commit_waits_until_its_endpoints_have_their_records(obsolete: World) -> None:
    commit_id, fence = obsolete.planned(erase_commit(obsolete, 2), BOTH)
    obsolete.create(commit_id, fence)

    with pytest.raises(NotReady, match="copies the records"):
        obsolete.ledger.commits.ready(commit_id, fence)

    erasures = obsolete.ledger.erasures
    erasures.hold(ID, OWNER)
    (successor,) = erasures.successors(ID)
    assert erasures.is_held(successor.old_name)
    assert not erasures.is_held(str(successor.new_name))
    erasures.filled(ID, OWNER, successor)
    obsolete.ledger.commits.ready(commit_id, fence)


def test_endpoints_are_held_only_when_every_branch_waits(obsolete: World) -> None:
    with pytest.raises(NotReady, match="successors"):
        obsolete.ledger.erasures.hold(ID, OWNER)

    commit_id, _ = obsolete.planned(erase_commit(obsolete, 2), BOTH)
    with pytest.raises(NotReady, match="successors"):
        obsolete.ledger.erasures.hold(ID, OWNER)
    assert not obsolete.ledger.erasures.is_held(names(obsolete, commit_id)["dataset/members/log"])


def test_an_appended_call_counts_as_appended_to_the_successor(obsolete: World) -> None:
    calls = obsolete.ledger.webhook_calls
    old = names(obsolete, UUID(int=1))["kafka_topic/members_ingest"]
    calls.begin(old, "key-1", digest=DIGEST, from_offset=0, within_s=1.0)
    calls.finish(old, "key-1", partition=0, offset=3)

    commit_id = replaced(obsolete)

    new = names(obsolete, commit_id)["kafka_topic/members_ingest"]
    again = calls.begin(new, "key-1", digest=DIGEST, from_offset=0, within_s=1.0)
    assert getattr(again, "offset", None) == 3


def test_readers_are_waited_for_and_old_commits_are_not(obsolete: World) -> None:
    replaced(obsolete)

    with pytest.raises(NotReady, match="still read"):
        obsolete.ledger.erasures.stop_writers(ID, OWNER)

    obsolete.ledger.erasures.confirm_sinks(ID, OWNER, seen=[])
    obsolete.ledger.erasures.withdrawn(ID, OWNER)
    with pytest.raises(NotReady, match="still read"):
        obsolete.ledger.erasures.release(ID, OWNER)


def test_nothing_goes_back_to_obsolete_assets(obsolete: World) -> None:
    branches = obsolete.ledger.branches
    with pytest.raises(LedgerRefused, match="being erased"):
        branches.clone(branch_request(obsolete, 9, "copy"), source="main")
    promoted(obsolete)
    with pytest.raises(LedgerRefused, match="being erased"):
        branches.roll_back(branch_request(obsolete, 10, "main"), to_seq=1)

    withdrawn(obsolete)
    obsolete.ledger.erasures.release(ID, OWNER)

    with pytest.raises(NotPinned):
        branches.roll_back(branch_request(obsolete, 11, "main"), to_seq=1)
    assert branches.clone(branch_request(obsolete, 12, "copy"), source="main").name == "copy"


def test_obsolete_assets_are_destroyed_at_once_and_only_then_certified(
    obsolete: World,
) -> None:
    old = names(obsolete, UUID(int=1))["dataset/members/log"]
    promoted(obsolete)
    erasures = obsolete.ledger.erasures
    withdrawn(obsolete)
    erasures.release(ID, OWNER)
    with pytest.raises(NotReady, match="not destroyed"):
        erasures.certify(ID, OWNER, certificate={"found": 0})

    for asset_id in obsolete.ledger.gc.unpinned():
        obsolete.ledger.gc.mark(asset_id)
    assert obsolete.ledger.gc.due_destroys(), "without the usual grace"
    later = obsolete.at(LATER)
    obsolete.collect(later)

    assert old not in obsolete.outside
    assert erasures.remaining(ID) == ()
    assert erasures.claim(ID, OWNER, lease_s=600.0)
    view = erasures.certify(ID, OWNER, certificate={"found": 0})
    assert (view.state, view.sealed, view.certificate) == (
        ErasureState.CERTIFIED,
        None,
        {"found": 0},
    )
    assert erasures.blocked(obsolete.tenant, "members", [DIGEST]) == {DIGEST}
    assert erasures.certify(ID, OWNER, certificate={"found": 0}) == view


def test_a_protected_branch_needs_no_approval_for_the_same_definitions(world: World) -> None:
    world.serving(world.request(1), BOTH)
    world.ledger.branches.protect(world.tenant, "main", actor="ada")
    world.ledger.erasures.request(request(world))
    world.ledger.erasures.claim(ID, OWNER, lease_s=600.0)
    world.ledger.erasures.mark_obsolete(ID, OWNER)

    promoted(world)

    withdrawn(world)
    world.ledger.erasures.release(ID, OWNER)
    assert world.ledger.erasures.get(ID).state is ErasureState.REMOVING


def test_only_the_process_with_the_lease_takes_steps(world: World) -> None:
    world.serving(world.request(1), BOTH)
    erasures = world.ledger.erasures
    erasures.request(request(world))
    assert erasures.claim(ID, OWNER, lease_s=600.0)
    assert not erasures.claim(ID, "eraser-2", lease_s=600.0)

    with pytest.raises(Fenced):
        erasures.mark_obsolete(ID, "eraser-2")

    later = world.at(LATER * 10).erasures
    assert later.claim(ID, "eraser-2", lease_s=600.0)
    later.mark_obsolete(ID, "eraser-2")
    with pytest.raises(Fenced):
        erasures.hold(ID, OWNER)


def test_a_blocked_key_stays_blocked(world: World) -> None:
    world.serving(world.request(1), BOTH)
    world.ledger.erasures.request(request(world))
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)

    with pytest.raises(sa.exc.DBAPIError, match="never changed"), engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM blocked_key")


def test_a_dataset_with_rows_of_files_is_not_erased(world: World) -> None:
    log, *others = FLIGHTS
    named = (attrs.evolve(log, paths=("dataset/members/log",)), *others)
    world.serving(world.request(1), blueprint(named))
    reached = world.ledger.erasures.reached(world.tenant, "members")
    assert {asset.kind for asset in reached} >= {AssetKind.KAFKA_TOPIC, AssetKind.STREAM_JOB}
    (why,) = unsupported(reached)
    assert "not a webhook" in why

    world.ledger.erasures.request(request(world))
    world.ledger.erasures.claim(ID, OWNER, lease_s=600.0)
    with pytest.raises(NotReady, match="cannot be erased"):
        world.ledger.erasures.mark_obsolete(ID, OWNER)


def test_a_certificate_is_verified_by_the_installations_key(
    ledger_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("keys")
    ledger = Ledger(ledger_dsn, signer=Signer.load(home / "one"))
    other = Signer.load(home / "two")
    certificate = {"dataset": "members", "found": 0}
    signature = Signer.load(home / "one").attest(["erasure", certificate])

    ledger.erasures.verify(certificate, signature)

    for statement, by in (
        ({**certificate, "found": 1}, signature),
        (certificate, other.attest(["erasure", certificate])),
        (certificate, b""),
    ):
        with pytest.raises(NotSigned):
            ledger.erasures.verify(statement, by)
    ledger.close()
