"""Drivers of which a test is the supervisor, so that it chooses their epochs."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from narthex._ir.assets import AssetKind
from narthex._processes import ProcessGroup
from narthex.settings import Settings, environment_of
from narthex_ledger import JobView
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    Report,
    ShardId,
    WorkAssignment,
    parse_report,
    render_desired,
)
from narthex_spark_apps.supervision.supervisor import DRIVER_MODULE
from tests.supervision.plant import Installation, wait_for

OWNER = "tests:0:zombies"


@attrs.define
class DriverUnderTest:
    """A driver of which the test is the supervisor."""

    group: ProcessGroup
    story: Path
    reports: dict[ShardId, Report] = attrs.field(factory=dict)

    def listen(self) -> None:
        for line in self.group.popen.stdout or ():
            match parse_report(line.decode()):
                case Report() as report:
                    self.reports[ShardId(report.asset_id, report.shard)] = report
                case _:
                    continue

    def wait_for(self, is_so: Callable[[Report], bool], job: JobView, what: str) -> None:
        """Wait until the newest report of each shard of a job is so."""
        shards = [ShardId(job.asset.asset_id, shard.shard) for shard in job.shards]
        wait_for(
            lambda: all(one in self.reports and is_so(self.reports[one]) for one in shards),
            what=what,
            so_far=lambda: (
                [self.reports.get(one) for one in shards],
                self.story.read_text()[-2000:],
            ),
        )


@contextmanager
def driver(
    plant: Installation,
    jobs: list[JobView],
    *,
    epochs: Mapping[int, int],
    at: Path,
    settings: Settings | None = None,
) -> Iterator[DriverUnderTest]:
    """Run these jobs, all of one kind of asset, under the epochs of their slots."""
    (kind,) = {job.asset.kind for job in jobs}
    story = at / f"{kind.value}-{max(epochs.values())}.log"
    group = ProcessGroup.start(
        [sys.executable, "-m", DRIVER_MODULE],
        environment={**os.environ, **environment_of(settings or plant.settings)},
        log=story,
        has_pipes=True,
    )
    found = DriverUnderTest(group, story)
    listener = threading.Thread(target=found.listen)
    listener.start()
    assignments = tuple(
        WorkAssignment(
            asset=job.asset,
            epoch=epochs[shard.slot],
            generation=job.generation,
            shard=shard.shard,
            shards=len(job.shards),
        )
        for job in jobs
        for shard in job.shards
    )
    try:
        assert group.popen.stdin is not None
        desired = DesiredAssignments(assignments=assignments, turn=1)
        group.popen.stdin.write(f"{render_desired(desired)}\n".encode())
        group.popen.stdin.flush()
        yield found
    finally:
        group.kill()
        listener.join()
        group.popen.communicate()


def jobs_of(plant: Installation, kind: AssetKind) -> list[JobView]:
    return [job for job in plant.house.ledger.jobs.all() if job.asset.kind is kind]


def take_over(plant: Installation) -> dict[int, int]:
    """Take over all slots from their holders, or from an earlier call; return their epochs."""
    ledger = plant.house.ledger
    ledger.engines.retire(OWNER)
    found: dict[int, int] = {}

    def has_all() -> bool:
        leases = ledger.slots.claim(OWNER, range(ledger.slots.count()))
        found.update({lease.slot: int(lease.epoch) for lease in leases})
        return len(leases) == ledger.slots.count()

    wait_for(has_all, what="all slots are free", so_far=plant.held)
    ledger.engines.retire(OWNER)
    return found
