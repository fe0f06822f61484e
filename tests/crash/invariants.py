"""The invariants of the ledger and the stores: at every moment, and at rest.

The numbers are those of the protocol's list of promises.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs

from narthex._ir.assets import AssetKind
from narthex_ledger import ASSET_NEXT, COMMIT_NEXT, ROW_KINDS, AssetState, CommitState

_STATES = {state.value for state in AssetState}
_COMMITS = {state.value for state in CommitState}
_STANDING = {AssetState.LIVE.value, AssetState.RETIRING.value}
_STORED = {kind.value for kind in AssetKind if kind not in ROW_KINDS}


@attrs.define
class ObservedEvents:
    """The observed events of the ledger: the position, each row's path, each commit's fence."""

    last_event: int = 0
    paths: dict[tuple[str, object], list[str]] = attrs.field(factory=dict)
    fences: dict[object, int] = attrs.field(factory=dict)


class CheckedWorld(Protocol):
    """A ledger and its stores, as a judge sees them."""

    @property
    def past(self) -> ObservedEvents:
        """The state of the events before."""
        ...

    @property
    def wrong_destroys(self) -> Sequence[str]:
        """The assets whose destruction was called while a pin reached them."""
        ...

    @property
    def tampered(self) -> Collection[str]:
        """The assets that a test itself put into a store, or removed from it."""
        ...

    def made(self) -> Sequence[str]:
        """Name the created assets, once per creation, if the store reports it."""
        ...

    def there(self) -> Mapping[str, str]:
        """Return everything that exists outside: name to external id."""
        ...

    def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        """Ask the ledger's database."""
        ...


def broken_now(world: CheckedWorld) -> list[str]:
    """Return the promises that do not hold at this moment."""
    return [
        *(f"I5 destroyed while pinned: {name}" for name in world.wrong_destroys),
        *_rows_of(world, _NEVER),
        *_made(world),
        *_events(world),
        *_counts(world),
    ]


def broken_when_quiet(world: CheckedWorld) -> list[str]:
    """Return the invariants that are violated at rest."""
    there = world.there()
    live = {
        row["physical_name"]: row["external_id"]
        for row in world.rows(
            "SELECT physical_name, external_id FROM asset WHERE kind = ANY(:stored)"
            " AND state = 'live'",
            stored=sorted(_STORED),
        )
    }
    aside = {
        row["physical_name"]: row["external_id"]
        for row in world.rows(
            "SELECT physical_name, external_id FROM asset WHERE state = 'quarantined'"
        )
    }
    return [
        *broken_now(world),
        *(f"L2 a stray: {name}" for name in sorted(there.keys() - live.keys() - aside.keys())),
        *(f"set aside, and there: {n}" for n, known in aside.items() if there.get(n) == known),
        *(f"L2 lost: {name}" for name in sorted(live.keys() - there.keys())),
        *(
            f"I10 another thing: {name}"
            for name in live
            if there.get(name) not in (None, live[name])
        ),
        *_rows_of(world, _NEVER_AT_REST),
        *(f"I8 made twice: {name}" for name in _twice(world)),
    ]


def _rows_of(world: CheckedWorld, never: str) -> Iterator[str]:
    for row in world.rows(never):
        yield f"{row['what']}: {row['found']}"


def _made(world: CheckedWorld) -> Iterator[str]:
    there = world.there()
    ahead = set(world.tampered)
    for row in world.rows(
        "SELECT physical_name, intent_at, status, state, kind"
        " FROM asset JOIN create_ledger USING (asset_id)"
    ):
        name = row["physical_name"]
        if row["intent_at"] is not None:
            ahead.add(name)
        is_due = row["status"] == "DONE" and row["state"] in _STANDING and row["kind"] in _STORED
        if is_due and name not in there and name not in world.tampered:
            yield f"I10 {name} is done and not there"
    for name in sorted(there.keys() - ahead):
        yield f"I9 the ledger has no intent that {name} would be made"


def _events(world: CheckedWorld) -> Iterator[str]:
    """Read what was written since the last time: it only grows."""
    past = world.past
    for row in world.rows(
        "SELECT event_id, transition, asset_id, commit_id, fence FROM ledger_event"
        " WHERE event_id > :last ORDER BY event_id",
        last=past.last_event,
    ):
        past.last_event = row["event_id"]
        new, fence = row["transition"], row["fence"]
        if new in _STATES and row["asset_id"] is not None:
            yield from _step(past.paths.setdefault(("asset", row["asset_id"]), []), row)
        elif new in _COMMITS:
            yield from _step(past.paths.setdefault(("commit", row["commit_id"]), []), row)
        if row["commit_id"] is None or fence is None or new.startswith("backfill"):
            continue
        if fence < past.fences.get(row["commit_id"], 0):
            yield f"I15 {new} of {row['commit_id']} came from an older fence"
        past.fences[row["commit_id"]] = max(fence, past.fences.get(row["commit_id"], 0))


def _step(path: list[str], row: Mapping[str, Any]) -> Iterator[str]:
    new = row["transition"]
    what = f"asset {row['asset_id']}" if new in _STATES else f"commit {row['commit_id']}"
    if path and not _may(path[-1], new):
        yield f"I14 {what} went from {path[-1]} to {new}"
    path.append(new)
    if {"COMMITTED", "ABORTING"} <= set(path):
        yield f"I13 {what} was both committed and aborted"


def _may(old: str, new: str) -> bool:
    if old in _STATES:
        return AssetState(new) in ASSET_NEXT[AssetState(old)]
    return CommitState(new) in COMMIT_NEXT[CommitState(old)]


def _counts(world: CheckedWorld) -> Iterator[str]:
    bound: dict[int, set[object]] = {}
    for row in world.rows("SELECT asset_id, manifest_id FROM manifest_binding"):
        bound.setdefault(row["asset_id"], set()).add(row["manifest_id"])
    pins = [row["manifest_id"] for row in world.rows("SELECT manifest_id FROM pin")]
    for row in world.rows("SELECT asset_id, refs FROM asset_refcount"):
        counted = sum(manifest in bound.get(row["asset_id"], ()) for manifest in pins)
        if counted != row["refs"]:
            yield f"I17 asset {row['asset_id']} has {counted} references, shown {row['refs']}"


def _twice(world: CheckedWorld) -> list[str]:
    made = world.made()
    return sorted({name for name in made if made.count(name) > 1})


def _any_of(promises: Mapping[str, str]) -> str:
    """Combine queries into one: each selects rows that must not exist."""
    return " UNION ALL ".join(
        f"SELECT '{what}' AS what, to_jsonb(found) AS found FROM ({query}) AS found"  # noqa: S608
        for what, query in promises.items()
    )


_NEVER = _any_of(
    {
        "I2 a head binds what is not live": """
SELECT pin.holder, asset.asset_id, asset.state FROM pin
  JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
 WHERE pin.holder IN ('head', 'serving', 'history', 'undelete')
   AND asset.state NOT IN ('live', 'quarantined')
""",
        "I6 a pinned asset is going away": """
SELECT pin.holder, asset.asset_id, asset.state FROM pin
  JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
 WHERE asset.state NOT IN ('planned', 'creating', 'live', 'quarantined')
""",
        "I11 two commits in flight on a branch": """
SELECT branch_id FROM deploy_commit WHERE state IN ('PLANNED', 'APPLYING', 'READY')
 GROUP BY branch_id HAVING count(*) > 1
""",
        "I12 the numbers of a branch have gaps": """
SELECT branch_id, head_seq FROM branch LEFT JOIN deploy_commit USING (branch_id)
 GROUP BY branch_id, head_seq
HAVING head_seq <> coalesce(max(seq), 0) OR head_seq <> count(*) FILTER (WHERE seq > 0)
""",
        "I12 the parent of a commit is not the one before it": """
SELECT mine.commit_id FROM deploy_commit mine LEFT JOIN deploy_commit before
    ON before.branch_id = mine.branch_id AND before.seq = mine.seq - 1
 WHERE mine.seq > 1 AND mine.parent_commit_id IS DISTINCT FROM before.commit_id
""",
        "I18 a binding crosses tenants": """
SELECT asset_id FROM manifest_binding JOIN manifest USING (manifest_id) JOIN asset USING (asset_id)
 WHERE asset.tenant_id <> manifest.tenant_id
""",
        "rejected by half": """
SELECT commit_id, promotion.state, approved_by FROM promotion JOIN ledger_event USING (commit_id)
 WHERE transition = 'rejected' AND (promotion.state <> 'SUPERSEDED' OR approved_by IS NOT NULL)
""",
        "I1 readers see an asset without a pin": """
SELECT branch_id FROM branch WHERE state = 'active' AND serving_commit_id IS NOT NULL AND NOT EXISTS
 (SELECT 1 FROM pin JOIN deploy_commit c ON c.manifest_id = pin.manifest_id
   WHERE pin.branch_id = branch.branch_id AND holder = 'serving'
     AND c.commit_id = branch.serving_commit_id)
""",
    }
)
_NEVER_AT_REST = _any_of(
    {
        "I4 an aborted commit left something": """
SELECT asset.asset_id, asset.state FROM deploy_commit
  JOIN create_ledger ON introduced_by = commit_id OR owner_commit_id = commit_id
  JOIN asset USING (asset_id) JOIN asset_refcount USING (asset_id)
 WHERE deploy_commit.state = 'ABORTED' AND asset.state <> 'destroyed' AND refs = 0
""",
        "I19 created other than planned": """
SELECT commit_id FROM deploy_commit WHERE state IN ('COMMITTED', 'FINALIZED') AND kind = 'deploy'
   AND (SELECT count(*) FROM create_ledger WHERE introduced_by = commit_id)
    <> (SELECT count(*) FROM jsonb_array_elements(plan -> 'create'))
""",
        "a destroyed job is in the registry": """
SELECT job.asset_id FROM job JOIN asset USING (asset_id) WHERE asset.state = 'destroyed'
""",
        "L1 not ended": """
SELECT 'commit' AS what, commit_id::text AS id, state FROM deploy_commit
 WHERE state NOT IN ('FINALIZED', 'ABORTED', 'REJECTED')
UNION ALL SELECT 'asset', asset_id::text, state FROM asset
 WHERE state IN ('planned', 'creating', 'retiring', 'destroying')
UNION ALL SELECT 'promotion', commit_id::text, state FROM promotion WHERE state = 'PENDING'
""",
    }
)
