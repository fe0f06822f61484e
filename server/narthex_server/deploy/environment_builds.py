"""Environments of the locks of commits: installed before the commit point, each once.

A build runs in a process of its own, one at a time; a commit whose environment is being built is
asked for again, as one that waits for a store.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import structlog

from narthex._ir import Definitions, LockedPackage, codes_in, environment_name
from narthex._runtime.environments import (
    BuildFailedError,
    PackageSource,
    build,
    is_built,
    supplied_version,
)
from narthex.errors import DefinitionError, RequirementsInvalid
from narthex.settings import REDUCED, Settings
from narthex_server.errors import Conflicting

log = structlog.get_logger()


class NotInstalled(Conflicting):
    """The packages of a lock are being installed; retry."""


def package_source(settings: Settings) -> PackageSource:
    """Return where an installation builds environments, and from what."""
    return PackageSource(
        home=settings.home,
        index=settings.package_index,
        ca_file=settings.ca_file,
        is_reduced=settings.sandbox == REDUCED,
    )


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


class EnvironmentBuilds:
    """The environments of one installation; thread-safe."""

    def __init__(self, source: PackageSource) -> None:
        """Prepare; nothing is built before the first call of `require`."""
        self._source = source
        self._builds: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def require(self, definitions: Definitions) -> None:
        """Require that all environments of some definitions are built; start their builds.

        Raises:
            NotInstalled: One is being built.
            BuildFailedError: One cannot be built. The next call tries again.
        """
        missing = [one for one in locks_of(definitions) if not is_built(one, self._source.home)]
        with self._lock:
            ended = [self._ended(one) for one in missing]
        if not all(ended):
            raise NotInstalled("the packages of the lock are being installed")

    def _ended(self, packages: tuple[LockedPackage, ...]) -> bool:
        name = environment_name(packages)
        if name not in self._builds:
            self._builds[name] = self._started(name, packages)
        if not self._builds[name].done():
            return False
        self._builds.pop(name).result()
        return True

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
        supplied = {one.distribution for one in packages if supplied_version(one.distribution)}
        log.info("environment_building", environment=name, packages=len(packages))
        build(packages, self._source, supplied=frozenset(supplied))
        log.info("environment_built", environment=name)
