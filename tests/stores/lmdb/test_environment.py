"""An LMDB environment: its address space."""

import subprocess
import sys
from pathlib import Path

import pytest

from narthex_stores.lmdb.environment import LmdbEnvironment

MANY = """
import pathlib, resource, sys
from narthex_stores.lmdb.environment import LmdbEnvironment

resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
opened = []
for number in range(150):
    path = pathlib.Path(sys.argv[1], str(number))
    path.mkdir()
    opened.append(LmdbEnvironment(path, tables=[b"rows"], readonly=False))
print(len(opened))
"""


def test_a_process_opens_many_environments_in_little_address_space(tmp_path: Path) -> None:
    # A 128th of the address space of a process: 16 maps of 64 GiB would fill it.
    opened = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert opened.stdout == "150\n", opened.stderr


@pytest.mark.parametrize("readonly", [True, False])
def test_an_environment_that_has_grown_opens_with_a_small_map(
    tmp_path: Path, *, readonly: bool
) -> None:
    value = b"x" * 100_000
    grown = LmdbEnvironment(tmp_path, tables=[b"rows"], readonly=False, map_size=1 << 22)
    with grown.transaction(write=True) as transaction:
        for number in range(20):
            transaction.put(b"%d" % number, value, db=grown.tables[b"rows"])
    grown.close()

    opened = LmdbEnvironment(tmp_path, tables=[b"rows"], readonly=readonly, map_size=1 << 17)
    with opened.transaction(write=False) as transaction:
        assert transaction.get(b"19", db=opened.tables[b"rows"]) == value
    opened.close()
