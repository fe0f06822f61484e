"""One world for all tests of crashes: each begins anew in it, which is cheaper than a database."""

from collections.abc import Callable, Iterator

import pytest
import structlog

from tests.crash.__main__ import QUIET
from tests.crash.world import World


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Log nothing: what goes wrong here is meant to."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def opened(
    new_postgres_dsn: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Open the world; each run in it starts anew with `run`."""
    world = World.open(new_postgres_dsn(), tmp_path_factory.mktemp("crash"))
    yield world
    world.close()


@pytest.fixture
def world(opened: World) -> Iterator[World]:
    """Yield the world, in which nothing has ever happened."""
    with opened.run():
        yield opened
