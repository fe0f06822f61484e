"""The effects of a commit, decided and hashed before anything is changed."""

import hashlib
import json
from collections.abc import Callable

import attrs

from narthex._base import DESCRIPTION, Json, record, to_plain
from narthex._ir import AssetBlueprint, AssetKind, PipelineJobSpec


def canonical(plain: Json) -> bytes:
    """Render JSON so that equal values have equal bytes."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(plain: Json) -> bytes:
    """Hash JSON by its content."""
    return hashlib.sha256(canonical(plain)).digest()


@record
@attrs.frozen(kw_only=True)
class PlannedAsset:
    """An asset of a plan, identified by its meaning.

    Attributes:
        shared_with: Names of the branches that use it already.
    """

    kind: AssetKind
    fingerprint: bytes
    label: str = attrs.field(metadata=DESCRIPTION)
    paths: tuple[str, ...] = attrs.field(metadata=DESCRIPTION)
    shared_with: tuple[str, ...] = attrs.field(default=(), metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class CommitPlan:
    """The assets that a commit creates, shares, releases, backfills and flips.

    Attributes:
        flip: Logical paths that readers will see bound to another asset; not part of the hash,
            because a promotion in between does not change the commit's effects.
    """

    base_seq: int
    create: tuple[PlannedAsset, ...]
    share: tuple[PlannedAsset, ...]
    release: tuple[PlannedAsset, ...]
    backfill: tuple[PlannedAsset, ...]
    flip: tuple[str, ...]

    @property
    def sha256(self) -> bytes:
        """The hash that an author pins; equal for equal effects on an equal base."""
        effects: dict[str, Json] = {"base_seq": self.base_seq}
        for name, assets in (
            ("create", self.create),
            ("share", self.share),
            ("release", self.release),
            ("backfill", self.backfill),
        ):
            pairs = sorted((a.kind.value, a.fingerprint.hex()) for a in assets)
            effects[name] = [[kind, fingerprint] for kind, fingerprint in pairs]
        return sha256_of(effects)

    def naming(self, may_name: Callable[[str], bool]) -> "CommitPlan":
        """Leave out the names of other branches that share its assets; the hash stays."""

        def known(asset: PlannedAsset) -> PlannedAsset:
            return attrs.evolve(asset, shared_with=tuple(filter(may_name, asset.shared_with)))

        return attrs.evolve(
            self,
            create=tuple(map(known, self.create)),
            share=tuple(map(known, self.share)),
            release=tuple(map(known, self.release)),
            backfill=tuple(map(known, self.backfill)),
        )

    def plain(self) -> Json:
        """Render for storage; `narthex._base.records.from_plain` reads it back."""
        return to_plain(self)


def jobs_to_backfill(
    assets: tuple[AssetBlueprint, ...], *, created: frozenset[tuple[AssetKind, bytes]]
) -> frozenset[tuple[AssetKind, bytes]]:
    """Decide which new jobs have a backlog to drain before they run live.

    A new job has one unless it reads only topics that the same commit creates and that no such job
    writes: a new webhook endpoint and the datasets computed from it start empty.
    """
    jobs = [a for a in assets if a.kind is AssetKind.STREAM_JOB and _key(a) in created]
    due: set[tuple[AssetKind, bytes]] = set()
    filled: set[tuple[AssetKind, bytes]] = set()
    while True:
        found = [a for a in jobs if _key(a) not in due and _has_past(a, created, filled)]
        if not found:
            return frozenset(due)
        for job in found:
            due.add(_key(job))
            filled |= {(n.asset.kind, n.asset.fingerprint) for n in job.needs if n.role == "output"}


def _has_past(
    job: AssetBlueprint,
    created: frozenset[tuple[AssetKind, bytes]],
    filled: set[tuple[AssetKind, bytes]],
) -> bool:
    read = [
        (need.asset.kind, need.asset.fingerprint)
        for need in job.needs
        if need.role == "input" or need.role.startswith("input:")
    ]
    if not read:
        return not isinstance(job.spec, PipelineJobSpec)
    return any(topic not in created or topic in filled for topic in read)


def _key(asset: AssetBlueprint) -> tuple[AssetKind, bytes]:
    return asset.kind, asset.fingerprint
