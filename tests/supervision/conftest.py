"""One shop for all tests, on the session's broker and database server; no supervisor stays."""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from narthex.settings import environment_of
from narthex_stack.local_services.class_archive import ensure_class_archive
from tests.server.conftest import house_at, settings_at
from tests.supervision.plant import Installation


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    module_ledger_dsn: str,
    kafka_bootstrap: str,
    connector_jars: Path,
) -> Iterator[Installation]:
    """A shop whose readers see it."""
    home = tmp_path_factory.mktemp("plant")
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap),
        jars_dir=connector_jars,
    )
    # As `narthex up` does: each of the drivers starts in half the time.
    ensure_class_archive(settings, {**os.environ, **environment_of(settings)})
    with house_at(settings) as house:
        plant = Installation.opened(house)
        try:
            first = plant.supervise("first")
            plant.wait_served()
            first.stop()
            yield plant
        finally:
            plant.end()


@pytest.fixture
def plant(served: Installation) -> Iterator[Installation]:
    """The shop, without supervisors."""
    yield served
    served.end()
