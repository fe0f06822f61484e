"""A task compares the places of its executor with those of its driver."""

from pathlib import Path

import attrs
import pytest

from narthex.settings import Settings
from narthex_spark_apps.jobs.shared_places import PlaceNotSharedError, SharedPlaces

ELSEWHERE = "another kernel"


@pytest.fixture
def settings(settings_of: Settings, tmp_path: Path) -> Settings:
    return attrs.evolve(settings_of, checkpoint_dir=tmp_path / "checkpoints")


def test_a_task_with_the_places_of_its_driver_starts(settings: Settings) -> None:
    of_driver = SharedPlaces.of(settings)

    assert SharedPlaces.of(settings) == of_driver
    of_driver.require(settings)


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_task_without_the_checkpoint_directory_is_refused(
    settings: Settings, tmp_path: Path, is_marked: bool
) -> None:
    of_driver = SharedPlaces.of(settings)
    elsewhere = attrs.evolve(settings, checkpoint_dir=tmp_path / "elsewhere")
    if is_marked:
        SharedPlaces.of(elsewhere)

    with pytest.raises(PlaceNotSharedError, match="set `NARTHEX_CHECKPOINT_DIR`"):
        of_driver.require(elsewhere)


def test_indexes_of_one_machine_are_refused_on_another(settings: Settings) -> None:
    of_driver = attrs.evolve(SharedPlaces.of(settings), machine=ELSEWHERE)

    with pytest.raises(PlaceNotSharedError, match="NARTHEX_INDEX_STORE"):
        of_driver.require(settings)
    of_driver.require(attrs.evolve(settings, index_store="redis://127.0.0.1:6379"))
