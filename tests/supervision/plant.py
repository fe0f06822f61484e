"""Real supervisors around a real server, broker and ledger; rows in, totals out."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

from narthex._ir import AssetKind, FeedSpec, PipelineJobSpec
from narthex._processes import (
    Process,
    end_leftovers,
    load_process,
)
from narthex.settings import Settings, environment_of
from narthex_spark_apps.cli.supervisor_process import run_dir
from narthex_spark_apps.jobs.application import STANDING_TASKS
from tests.server.conftest import House
from tests.server.driving import deploy
from tests.spark_processes import signal_session
from tests.supervision.shop import shop

WITHIN_S = 300.0
LOOK_EVERY_S = 0.1
ITEMS = {"tea": ("food", 3), "salt": ("food", 1), "rope": ("tools", 9), "nails": ("tools", 4)}
USERS = ("ann", "bob", "cat")
RUNNERS = ("driver", *STANDING_TASKS)

_T = TypeVar("_T")


def wait_for(happens: Callable[[], _T], *, what: str, so_far: Callable[[], object]) -> _T:
    """Look until it is true; return what was seen."""
    ends_at = time.monotonic() + WITHIN_S
    while not (seen := happens()):
        assert time.monotonic() < ends_at, f"not within {WITHIN_S:g} s: {what}; {so_far()}"
        time.sleep(LOOK_EVERY_S)
    return seen


@attrs.define
class SupervisorProcess:
    """A supervisor process and its driver."""

    name: str
    process: "subprocess.Popen[bytes]"
    directory: Path

    @property
    def pid_path(self) -> Path:
        """The file that names the driver; it is missing while none runs."""
        return self.directory / "driver.pid"

    @property
    def driver(self) -> Process:
        stored = load_process(self.pid_path)
        assert stored, "the driver was not started"
        return stored

    def signal(self, number: signal.Signals, *, with_driver: bool = False) -> None:
        """Signal the supervisor's own process; before it, optionally, its driver and all tasks."""
        if with_driver:
            signal_session(self.driver, number)
        os.kill(self.process.pid, number)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def stop(self) -> None:
        """Ask it to end, as its operator does."""
        self.process.terminate()
        assert self.process.wait(WITHIN_S) == 0

    def end(self) -> None:
        """End it with its descendants, in any state."""
        self.process.kill()
        self.process.wait()
        end_leftovers(self.directory / "driver.pid")


@attrs.define
class Installation:
    """A committed shop whose jobs do not run yet."""

    house: House
    commit_id: str
    supervisors: dict[str, SupervisorProcess] = attrs.field(factory=dict)
    sent: list[tuple[str, str, int]] = attrs.field(factory=list)

    @classmethod
    def opened(cls, house: House) -> "Installation":
        plant = cls(house=house, commit_id=deploy(house.client, shop()))
        plant.log(
            "items",
            [
                {"item": item, "shelf": shelf, "price": price, "since": "2026-01-01T00:00:00Z"}
                for item, (shelf, price) in ITEMS.items()
            ],
        )
        return plant

    @property
    def settings(self) -> Settings:
        return self.house.services.settings

    def supervise(
        self, name: str, *, settings: Settings | None = None, lazy: bool = True
    ) -> SupervisorProcess:
        """Start a supervisor."""
        directory = run_dir(self.settings.home, name)
        directory.mkdir(parents=True, exist_ok=True)
        for earlier in directory.glob("*.log"):
            earlier.unlink()
        with (directory / "supervisor.log").open("ab") as story:
            process = subprocess.Popen(
                [
                    Path(sys.executable).with_name("narthex"),
                    "supervisor",
                    *(["--lazy"] if lazy else []),
                    "--name",
                    name,
                ],
                env={**os.environ, **environment_of(settings or self.settings)},
                stdout=story,
                stderr=story,
            )
        self.supervisors[name] = SupervisorProcess(name, process, directory)
        return self.supervisors[name]

    def log(self, endpoint: str, rows: Sequence[dict[str, object]]) -> None:
        answer = self.house.client.post(
            "/api/v1/log", json={"webhook": "shop", "endpoint": endpoint, "data": list(rows)}
        )
        assert answer.status_code == 200, answer.text

    def order(self, number: int) -> None:
        """Send the order of that number: who, what and when follow from it."""
        user, item = USERS[number % 3], tuple(ITEMS)[number % 4]
        minute, second = divmod(number, 60)
        at = f"2026-01-02T{minute // 60:02}:{minute % 60:02}:{second:02}Z"
        self.log("orders", [{"user": user, "item": item, "quantity": number % 7, "at": at}])
        self.sent.append((user, item, number % 7))

    def held(self) -> Counter[str]:
        """Count the slots of each current lease, by process id."""
        owners = [slot.owner for slot in self.house.ledger.slots.all()]
        return Counter(owner.split(":")[1] for owner in owners if owner is not None)

    def owners_of(self, dataset: str) -> dict[AssetKind, list[str]]:
        """Return the owner of each shard of the jobs and feeds of a dataset, by their kind."""
        return {
            job.asset.kind: [str(shard.slot_owner) for shard in job.shards]
            for job in self.house.ledger.jobs.all()
            if isinstance(job.asset.spec, FeedSpec | PipelineJobSpec)
            and job.asset.spec.dataset == dataset
        }

    def wait_held(self, *names: str) -> None:
        """Wait until these supervisors, and no others, hold all slots evenly."""
        pids = {str(self.supervisors[name].process.pid) for name in names}
        slots = self.house.ledger.slots.count()
        least, most = slots // len(pids), -(-slots // len(pids))

        def is_even() -> bool:
            held = self.held()
            return (
                held.keys() == pids
                and held.total() == slots
                and all(least <= number <= most for number in held.values())
            )

        wait_for(is_even, what=f"{names} share {slots} slots", so_far=self.held)

    def wait_reported(self) -> None:
        """Wait until each job runs under a known epoch."""
        wait_for(
            lambda: all(
                shard.seen_epoch == shard.slot_epoch
                for job in self.house.ledger.jobs.all()
                for shard in job.shards
            ),
            what="each job runs under the epoch of its slot",
            so_far=self.jobs,
        )

    def expected(self) -> dict[str, dict[str, tuple[object, ...]]]:
        """Compute what all orders that were sent sum up to."""
        orders = Counter(user for user, _, _ in self.sent)
        dearest = {
            user: max(ITEMS[item][1] for whose, item, _ in self.sent if whose == user)
            for user in orders
        }
        quantity: Counter[str] = Counter()
        volume: Counter[str] = Counter()
        for _, item, number in self.sent:
            quantity[ITEMS[item][0]] += number
            volume[item] += 2 * number
        times = Counter(item for _, item, _ in self.sent)
        return {
            "Spend": {user: (orders[user], dearest[user]) for user in orders},
            "Demand": {shelf: (number,) for shelf, number in quantity.items()},
            "Volume": {item: (times[item], number) for item, number in volume.items()},
        }

    def found(self) -> dict[str, dict[str, tuple[object, ...]]]:
        """Ask for all totals, as readers do."""
        shelves = sorted({shelf for shelf, _ in ITEMS.values()})
        return {
            "Spend": self._ask("Spend", "user", USERS, ("orders", "dearest")),
            "Demand": self._ask("Demand", "shelf", shelves, ("quantity",)),
            "Volume": self._ask("Volume", "item", tuple(ITEMS), ("orders", "doubled")),
        }

    def _ask(
        self, dataset: str, key: str, values: Sequence[str], fields: Sequence[str]
    ) -> dict[str, tuple[object, ...]]:
        answer = self.house.client.post(
            f"/api/v1/dataset/{dataset}/lookup", json={"keys": [{key: value} for value in values]}
        )
        assert answer.status_code == 200, answer.text
        found, data = answer.json()["found"], answer.json()["data"]
        return {
            value: tuple(data[name][at] for name in fields)
            for at, value in enumerate(values)
            if found[at]
        }

    def wait_served(self) -> None:
        """Wait until the jobs have caught up, and let readers see the shop."""
        wait_for(
            lambda: (
                self.house.client.post(f"/api/v1/commits/{self.commit_id}/steps/promote").is_success
            ),
            what="all have caught up",
            so_far=self.jobs,
        )

    def wait_exact(self) -> None:
        """Wait until the totals are those of the orders that were sent."""
        wait_for(
            lambda: self.found() == self.expected(),
            what=f"{self.expected()}",
            so_far=lambda: (self.found(), self.jobs()),
        )

    def jobs(self) -> list[str]:
        return [
            f"{job.asset.physical_name} {shard.shard} {shard.phase} {shard.progress}"
            for job in self.house.ledger.jobs.all()
            for shard in job.shards
        ]

    def end(self) -> None:
        for supervised in self.supervisors.values():
            supervised.end()
        self.supervisors.clear()
