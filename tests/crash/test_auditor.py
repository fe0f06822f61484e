"""The auditor finds lost assets and strays, and destroys only strays that it saw twice."""

import attrs
import pytest

from narthex._ir.assets import AssetKind, TopicRole, TopicSpec
from narthex_server.deploy.auditor import SystemAudit, trips
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_stores import ForeignAssetError, InMemoryAdapter, StoreError, TransientError
from tests.crash.scenarios import ONE, TWO, deploy, tiny
from tests.crash.world import STRAY, ServerProcess, World, blueprint

pytestmark = pytest.mark.postgres

TOPIC = AssetKind.KAFKA_TOPIC
SPEC = TopicSpec(role=TopicRole.DATASET, partitions=1)
MANY = blueprint("many", *(tiny(f"many{number}") for number in range(10)))


@attrs.frozen
class AuditScene:
    """A world in which one commit serves, and a process to audit it."""

    world: World
    life: ServerProcess

    def topics(self) -> SystemAudit:
        return next(one for one in self.life.auditor.audit() if one.kind is TOPIC)

    def put(self, name: str) -> None:
        self.store.create(name, SPEC, asset_id=0, timeout_s=1.0)

    @property
    def store(self) -> InMemoryAdapter:
        return self.world.stores[TOPIC].things

    def names(self) -> set[str]:
        return {one.name for one in self.store.list("", timeout_s=1.0)}

    def state(self, name: str) -> str:
        (row,) = self.world.rows("SELECT state FROM asset WHERE physical_name = :n", n=name)
        return str(row["state"])


@pytest.fixture
def scene(world: World) -> AuditScene:
    life = world.life()
    deploy(1, ONE)(world, life)
    return AuditScene(world, life)


def test_an_audit_of_a_consistent_platform_finds_nothing(scene: AuditScene) -> None:
    found = scene.life.auditor.audit()

    assert {one.kind for one in found} == set(scene.world.stores)
    assert [one for one in found if one.findings or one.error or one.tripped] == []
    assert sum(one.listed for one in found) == 2


def test_a_stray_is_reported_at_once_and_destroyed_after_a_second_scan(scene: AuditScene) -> None:
    scene.put(STRAY)

    first = scene.topics()
    again = scene.topics()
    scene.world.wait(60)
    confirmed = scene.topics()

    assert [(f.klass, f.name) for f in first.findings] == [("B", STRAY)]
    assert first.destroyed == again.destroyed == ()
    assert confirmed.destroyed == (STRAY,)
    assert STRAY not in scene.names()
    assert scene.topics().findings == ()


def test_a_stray_that_is_made_anew_between_scans_is_not_the_same_one(scene: AuditScene) -> None:
    scene.put(STRAY)
    scene.topics()
    scene.store.destroy(STRAY, external_id=None, timeout_s=1.0)
    scene.put(STRAY)
    scene.world.wait(60)

    assert scene.topics().destroyed == ()
    assert STRAY in scene.names()


def test_an_asset_that_reappears_after_its_destruction_is_destroyed_again(
    scene: AuditScene,
) -> None:
    (name,) = scene.names()
    deploy(2, TWO)(scene.world, scene.life)
    scene.world.wait(8 * 86_400)
    scene.world.settle(scene.life)
    assert scene.state(name) == "destroyed"
    scene.put(name)

    first = scene.topics()
    scene.world.wait(60)

    assert [f.klass for f in first.findings] == ["C"]
    assert scene.topics().destroyed == (name,)


def test_things_of_others_are_neither_counted_nor_touched(scene: AuditScene) -> None:
    scene.put("orders_of_somebody_else")
    scene.put("nx_othr1111_topic")

    scene.topics()
    scene.world.wait(60)
    found = scene.topics()

    assert (found.listed, found.findings) == (1, ())
    assert {"orders_of_somebody_else", "nx_othr1111_topic"} <= scene.names()
    assert scene.world.rows("SELECT * FROM external_inventory") == []


def test_a_lost_asset_is_quarantined_and_not_recreated(scene: AuditScene) -> None:
    (name,) = scene.names()
    scene.store.destroy(name, external_id=None, timeout_s=1.0)

    first = scene.topics()
    assert [(f.klass, f.name) for f in first.findings] == [("A", name)]
    assert scene.state(name) == "live"
    scene.world.wait(60)
    scene.topics()

    assert scene.state(name) == "quarantined"
    scene.life.submit(scene.world.request(2, ONE, branch="dev"))
    scene.world.settle(scene.life)
    (commit,) = scene.world.rows("SELECT state, error FROM deploy_commit WHERE seq IS NULL")
    assert commit["state"] == "REJECTED"
    assert commit["error"]["reason"] == "quarantined"
    assert name not in scene.names()


def test_another_thing_under_the_name_is_a_mismatch(scene: AuditScene) -> None:
    (name,) = scene.names()
    scene.store.destroy(name, external_id=None, timeout_s=1.0)
    scene.put(name)

    assert [f.klass for f in scene.topics().findings] == ["D"]


def test_a_round_that_would_destroy_too_much_destroys_nothing(scene: AuditScene) -> None:
    names = {f"{STRAY}_{number}" for number in range(11)}
    for name in names:
        scene.put(name)
    scene.topics()
    scene.world.wait(60)

    found = scene.topics()

    assert len(found.confirmed) == 11
    assert "an operator must check" in found.tripped
    assert found.destroyed == ()
    assert names <= scene.names()


def test_a_store_that_shows_nothing_at_all_sets_nothing_aside(scene: AuditScene) -> None:
    deploy(2, MANY)(scene.world, scene.life)
    gone = scene.names()
    for name in gone:
        scene.store.destroy(name, external_id=None, timeout_s=1.0)
    scene.topics()
    scene.world.wait(60)

    found = scene.topics()

    assert len(found.confirmed) == len(gone) == 11
    assert "an operator must check" in found.tripped
    assert {scene.state(name) for name in gone} == {"live"}


@pytest.mark.parametrize(
    ("wrong", "listed", "stops"),
    [(10, 11, False), (11, 11, True), (11, 220, False), (12, 220, True), (0, 0, False)],
)
def test_the_breaker_stops_many_destructions(*, wrong: int, listed: int, stops: bool) -> None:
    assert bool(trips(wrong, listed)) is stops


class _Silent(InMemoryAdapter):
    def list(self, prefix: str, *, timeout_s: float) -> tuple[()]:
        del timeout_s
        raise TransientError(f"half a list of `{prefix}` is none")


def test_a_scan_that_is_not_complete_counts_for_nothing(scene: AuditScene) -> None:
    scene.put(STRAY)
    scene.topics()
    scene.world.wait(60)
    auditor = attrs.evolve(scene.life.auditor, adapters={TOPIC: _Silent(TOPIC)})

    (found,) = auditor.audit()

    assert "half a list" in found.error
    assert found.destroyed == ()
    assert len(scene.world.rows("SELECT * FROM external_inventory")) == 1


def marked(inner: InMemoryAdapter, identity: str) -> OwnedStoreAdapter:
    return OwnedStoreAdapter(inner=inner, install_id="crash000", identity=lambda: identity)


def test_a_ledger_that_did_not_make_the_mark_destroys_nothing_until_it_is_adopted() -> None:
    store = InMemoryAdapter(TOPIC)
    ours = marked(store, "aaaa")
    ours.create(STRAY, SPEC, asset_id=1, timeout_s=1.0)
    assert [one.name for one in ours.list("nx_", timeout_s=1.0)] == [STRAY]

    restored = marked(store, "bbbb")
    with pytest.raises(ForeignAssetError, match="--adopt"):
        restored.destroy(STRAY, external_id=None, timeout_s=1.0)
    with pytest.raises(StoreError):
        restored.list("nx_", timeout_s=1.0)
    restored.adopt()
    restored.destroy(STRAY, external_id=None, timeout_s=1.0)

    assert restored.list("nx_", timeout_s=1.0) == ()
    with pytest.raises(ForeignAssetError):
        marked(store, "aaaa").list("nx_", timeout_s=1.0)


def test_the_identity_of_a_ledger_is_that_of_its_database(scene: AuditScene) -> None:
    found = scene.life.ledger.installation.identity()

    assert found == scene.world.supervisor.installation.identity()
    assert len(found) == 12
