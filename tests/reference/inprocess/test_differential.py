"""On projects drawn by chance, the engine of unit tests gives what the reference gives."""

import pytest

from narthex_reference.engines import engine_named, reference
from narthex_reference.fuzz import search


@pytest.mark.parametrize("seed", [100, 101])
def test_the_engine_of_unit_tests_is_what_definitions_mean(seed: int) -> None:
    engine = engine_named("narthex_reference.inprocess:engine_of")

    found = search(seed, 50, judge=reference, engine=engine)

    assert found.failure is None
    assert found.tried == 50
