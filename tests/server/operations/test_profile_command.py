"""`narthex profile` of several names on a served installation, with real stores."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from narthex.settings import environment_of
from narthex_expectations.server_client import audited_dataset
from tests.server.audited_sales import arrive, served_sales
from tests.server.conftest import House

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

MANY, FEW, LOST, WIDE = "Sales000", "Sales001", "Sales002", "Sales003"


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """Four datasets: with 40 rows, with 2, without its history, and with other amounts."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(
        home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=4, has_expectations=False
    ) as house:
        arrive(house, MANY, [float(n) for n in range(40)])
        arrive(house, FEW, [1.0, 2.0])
        arrive(house, WIDE, [1000.0 * n for n in range(40)])
        lost = audited_dataset(house.services.settings, LOST, branch="main")
        shutil.rmtree(lost.history_path)
        yield house


def profiled(house: House, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "narthex.cli", "profile", *arguments],
        env={**os.environ, **environment_of(house.services.settings)},
        capture_output=True,
        text=True,
        check=False,
    )


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_process_profiles_several_datasets(house: House) -> None:
    done = profiled(house, MANY, FEW, WIDE, MANY, "--json")

    assert done.returncode == 0, done.stderr
    lines = lines_of(done)
    assert [(one["dataset"], one["sampled_rows"], len(one["reasons"])) for one in lines] == [
        (MANY, 40, 3),
        (FEW, 2, 0),
        (WIDE, 40, 3),
    ]
    amounts = [one["source"].partition("'amount', ")[2].partition(")")[0] for one in lines]
    assert amounts == [
        "min_value=0.0, max_value=59.0",
        "",
        "min_value=0.0, max_value=59000.0",
    ]
    assert all(one["success"] for one in lines)


def test_a_dataset_that_cannot_be_profiled_is_named_and_the_others_are_profiled(
    house: House,
) -> None:
    done = profiled(house, LOST, MANY, "--json")

    assert done.returncode == 3
    failed, profile = lines_of(done)
    assert set(failed) == {"dataset", "error"}
    assert failed["dataset"] == LOST
    assert failed["error"].startswith("there is no history at ")
    assert done.stderr == f"narthex profile: {LOST}: {failed['error']}\n"
    assert (profile["dataset"], profile["rows"]) == (MANY, 40)


def test_names_of_other_things_are_refused_before_anything_is_profiled(house: House) -> None:
    done = profiled(house, MANY, "Sails", "Sale", "--json")

    assert done.returncode == 1
    # `Sale` is a featureset, of which nothing is stored.
    assert [(one["dataset"], set(one)) for one in lines_of(done)] == [
        ("Sails", {"dataset", "error"}),
        ("Sale", {"dataset", "error"}),
    ]
    told = [line.split(": ")[:2] for line in done.stderr.splitlines() if line]
    assert told == [["narthex profile", "Sails"], ["narthex profile", "Sale"]]


def test_people_see_which_dataset_each_proposal_is_for(house: House) -> None:
    alone, several = profiled(house, MANY), profiled(house, MANY, FEW, WIDE)

    assert (alone.returncode, several.returncode) == (0, 0)
    assert alone.stdout.startswith("from narthex.lib import (\n")
    titles = [line for line in several.stdout.splitlines() if line.startswith("# ")]
    assert titles == [f"# {MANY}", f"# {WIDE}"]
    assert several.stdout.startswith(f"# {MANY}\n{alone.stdout}# {WIDE}\n")
    assert several.stderr.splitlines() == [
        f"3 expectations, from 40 rows of {MANY}; 40 rows meet them",
        f"nothing to propose: 2 rows of {FEW} were read",
        f"3 expectations, from 40 rows of {WIDE}; 40 rows meet them",
    ]
