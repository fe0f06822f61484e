"""What commits go through in crash tests: what was there, what is done, what must come of it."""

from collections.abc import Callable

import attrs

from narthex.assets import AssetBlueprint, AssetKind, FeedSpec, IndexSpec
from narthex_ledger import CommitState
from tests.crash.world import Life, World, blueprint, later
from tests.ledger.world import LOG, asset, topic, webhook_dataset


def tiny(name: str) -> tuple[AssetBlueprint, ...]:
    """A log, an index, and the row that feeds one from the other."""
    log = topic(name)
    index = asset(AssetKind.INDEX, name, IndexSpec(log=LOG))
    feed = asset(AssetKind.INDEX_FEED, name, FeedSpec(dataset=name, log=LOG), log=log, index=index)
    return log, index, feed


ONE = blueprint("one", tiny("one"))
TWO = blueprint("two", tiny("two"))
BOTH = blueprint("both", tiny("one"), tiny("two"))
WHOLE = blueprint("whole", webhook_dataset("whole"))
NOTHING = blueprint("nothing")

Play = Callable[[World, Life], None]


@attrs.frozen(kw_only=True)
class Scenario:
    """A story that is told once without a fault and then with each one.

    Attributes:
        name: For the table.
        given: What has happened before, without a fault.
        when: What is done; a client whose server died does it again from the start.
        serve: Numbers of commits that readers must have come to, in this order of branches.
        wide: Whether it is left out where only the small ones are told.
    """

    name: str
    when: Play
    given: Play = lambda _world, _life: None
    serve: tuple[tuple[int, ...], ...] = ()
    wide: bool = False

    def wrong_end(self, world: World) -> list[str]:
        """Say which commits have not come to where they must."""
        found = {
            int(row["commit_id"]): row["state"]
            for row in world.rows("SELECT commit_id, state FROM deploy_commit")
        }
        return [
            f"none of commits {some} is FINALIZED: {[found.get(n) for n in some]}"
            for some in self.serve
            if not any(found.get(n) == CommitState.FINALIZED.value for n in some)
        ]


def deploy(number: int, wanted: str, branch: str = "main") -> Play:
    def play(world: World, life: Life) -> None:
        life.submit(world.request(number, wanted, branch=branch))
        world.settle(life)

    return play


def begin(number: int, wanted: str, branch: str = "main", *, create: int = 0) -> Play:
    """Plan a commit, create the first few of its assets, and leave it at that."""

    def play(world: World, life: Life) -> None:
        commit_id = life.submit(world.request(number, wanted, branch=branch))
        if life.attempt(lambda: life.executor.plan(commit_id)):
            for found in life.ledger.commit(commit_id).assets[:create]:
                life.attempt(lambda found=found: life.executor.create(commit_id, found.asset_id))

    return play


def cancel(number: int) -> Play:
    def play(world: World, life: Life) -> None:
        commit_id = world.request(number, ONE).commit_id
        life.attempt(lambda: life.ledger.cancel(commit_id, actor="ada"))
        life.recovery.notice(commit_id)

    return play


def settle(world: World, life: Life) -> None:
    world.settle(life)


def wait(**span: float) -> Play:
    return lambda world, _life: world.wait(later(**span))


def sweep(_world: World, life: Life) -> None:
    life.attempt(life.collector.sweep)


def begin_to_destroy(world: World, life: Life) -> None:
    """Destroy what can be, one step into each."""
    for asset_id in life.ledger.due_destroys():
        life.attempt(lambda a=asset_id: life.ledger.destroy_intent(a, life.collector.owner))
    del world


def acts(*plays: Play) -> Play:
    def play(world: World, life: Life) -> None:
        for one in plays:
            one(world, life)

    return play


replaced = acts(deploy(1, ONE), deploy(2, TWO), wait(days=8), sweep)

SCENARIOS = (
    Scenario(name="deploy", when=deploy(1, ONE), serve=((1,),)),
    Scenario(name="deploy, whole", when=deploy(1, WHOLE), serve=((1,),), wide=True),
    Scenario(name="share", given=deploy(1, ONE), when=deploy(2, ONE, "dev"), serve=((2,),)),
    Scenario(
        name="replace and collect",
        given=deploy(1, ONE),
        when=acts(deploy(2, TWO), wait(days=8), settle),
        serve=((2,),),
    ),
    Scenario(
        name="cancel midway",
        when=acts(begin(1, ONE, create=1), cancel(1), settle),
    ),
    Scenario(
        name="cancel what another shares",
        given=begin(1, ONE, create=2),
        when=acts(begin(2, BOTH, "dev"), cancel(1), settle),
        serve=((2,),),
    ),
    Scenario(
        name="take over",
        given=begin(1, ONE, create=1),
        when=acts(wait(minutes=1), deploy(1, ONE)),
        serve=((1,),),
    ),
    Scenario(
        name="resurrect",
        given=replaced,
        when=acts(deploy(3, ONE)),
        serve=((3,),),
    ),
    Scenario(
        name="make anew",
        given=acts(replaced, wait(minutes=1), begin_to_destroy),
        when=acts(deploy(3, ONE)),
        serve=((3,),),
    ),
    Scenario(
        name="two branches, one asset",
        when=acts(begin(1, ONE), deploy(2, BOTH, "dev")),
        serve=((1,), (2,)),
    ),
    Scenario(
        name="two commits, one branch",
        when=acts(begin(1, ONE), deploy(2, BOTH)),
        serve=((1,), (2,)),
        wide=True,
    ),
    Scenario(
        name="empty a branch",
        given=deploy(1, ONE),
        when=acts(deploy(2, NOTHING), wait(days=8), settle),
        serve=((2,),),
        wide=True,
    ),
)
