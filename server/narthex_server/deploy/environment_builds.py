"""Environments of the locks of commits: installed before the commit point, each once.

A build runs in a process of its own, one at a time; a commit whose environment is being built is
asked for again, as one that waits for a store.
"""

import datetime as dt
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final
from uuid import UUID

import structlog

from narthex._ir import Definitions, LockedPackage, codes_in, environment_name
from narthex._runtime.environments import (
    BuildFailedError,
    PackageSource,
    build,
    is_built,
    note_use,
    remove,
    remove_leftovers,
    supplied_version,
    unused,
)
from narthex.errors import DefinitionError, RequirementsInvalid
from narthex_ledger import Ledger
from narthex_server.definitions.bundles import read_bundle
from narthex_server.errors import Conflicting

log = structlog.get_logger()


KEPT: Final = dt.timedelta(days=7)
"""How long an environment stays after its last use, when no commit in use names it."""


class NotInstalled(Conflicting):
    """The packages of a lock are being installed; retry."""


def locks_of(definitions: Definitions) -> tuple[tuple[LockedPackage, ...], ...]:
    """Return the packages of each code that has some, each combination once."""
    found = (code.locked for code in codes_in((*definitions.datasets, *definitions.featuresets)))
    return tuple({environment_name(one): one for one in found if one}.values())


def lock_errors(definitions: Definitions, *, index: str) -> Iterator[DefinitionError]:
    """Yield an error for each locked package that this installation cannot supply.

    Args:
        definitions: Checked definitions.
        index: The package index of the installation; empty for none.
    """
    packages = {one: None for locked in locks_of(definitions) for one in locked}
    for one in packages:
        ours = supplied_version(one.distribution)
        if ours is not None and ours != one.version:
            yield RequirementsInvalid(
                f"`{one.distribution}` is {one.version} in the lock, but the platform runs {ours}",
                origin=one.origin,
                hint=f"compile it with the constraint `{one.distribution}=={ours}`",
            )
        elif ours is None and not index:
            yield RequirementsInvalid(
                f"`{one.distribution}` cannot be installed, as this platform has no package index",
                origin=one.origin,
                hint="ask its operator to set `NARTHEX_PACKAGE_INDEX`",
            )


def _environments_of(ledger: Ledger, commit_id: UUID) -> frozenset[str]:
    definitions = read_bundle(ledger.bundles.of_commit(commit_id)).definitions
    return frozenset(map(environment_name, locks_of(definitions)))


class EnvironmentBuilds:
    """The environments of one installation; thread-safe."""

    def __init__(self, source: PackageSource) -> None:
        """Prepare; nothing is built before the first call of `require`."""
        self._source = source
        self._builds: dict[str, Future[None]] = {}
        self._named: dict[UUID, frozenset[str]] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def require(self, definitions: Definitions) -> None:
        """Require that all environments of some definitions are built; start their builds.

        It counts as a use of those that are there: `remove_unused` keeps them.

        Raises:
            NotInstalled: One is being built.
            BuildFailedError: One cannot be built. The next call tries again.
        """
        locks, home = locks_of(definitions), self._source.home
        for one in locks:
            note_use(environment_name(one), home)
        missing = [one for one in locks if not is_built(one, home)]
        with self._lock:
            ended = [self._ended(one) for one in missing]
        if not all(ended):
            raise NotInstalled("the packages of the lock are being installed")

    def remove_unused(self, ledger: Ledger, *, now: dt.datetime) -> tuple[str, ...]:
        """Remove environments that nothing has used for `KEPT`, and no commit in use names.

        A commit is in use while a pin has its manifest: a branch has it as its head, serves it or
        can be moved back to it at once, or it is being deployed or queried offline. Any other
        commit that needs such an environment again requires it first, which builds it.

        Returns:
            The names of the removed environments.

        Raises:
            LedgerError: A commit in use cannot be read; nothing was removed.
        """
        home, since_s = self._source.home, (now - KEPT).timestamp()
        remove_leftovers(home)
        candidates = unused(home, since_s=since_s)
        if not candidates:
            return ()
        expired = sorted(candidates - self._needed(ledger))
        removed = tuple(one for one in expired if remove(one, home, since_s=since_s))
        for name in removed:
            log.info("environment_removed", environment=name)
        return removed

    def _needed(self, ledger: Ledger) -> frozenset[str]:
        """Return the environments of all commits in use; the bundle of each is read once."""
        pinned = ledger.manifests.pinned()
        self._named = {
            one: self._named[one] if one in self._named else _environments_of(ledger, one)
            for one in pinned
        }
        return frozenset[str]().union(*self._named.values())

    def _ended(self, packages: tuple[LockedPackage, ...]) -> bool:
        name = environment_name(packages)
        if name not in self._builds:
            self._builds[name] = self._started(name, packages)
        if not self._builds[name].done():
            return False
        self._builds.pop(name).result()
        # A build that ended long ago says nothing of an environment that was removed since.
        return is_built(packages, self._source.home)

    def _started(self, name: str, packages: tuple[LockedPackage, ...]) -> "Future[None]":
        outcome: Future[None] = Future()

        def work() -> None:
            try:
                with self._turn:
                    self._build(name, packages)
            except (BuildFailedError, OSError) as error:
                log.warning("environment_not_built", environment=name, error=str(error))
                outcome.set_exception(BuildFailedError(str(error)))
            except BaseException as error:
                outcome.set_exception(error)
                raise
            else:
                outcome.set_result(None)

        # A daemon, as the build's process ends with it, and the next server begins anew.
        threading.Thread(target=work, name="environments", daemon=True).start()
        return outcome

    def _build(self, name: str, packages: tuple[LockedPackage, ...]) -> None:
        log.info("environment_building", environment=name, packages=len(packages))
        build(packages, self._source)
        log.info("environment_built", environment=name)
