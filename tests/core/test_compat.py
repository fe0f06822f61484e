"""Code for Fennel's client imports Narthex; unsupported imports fail with a reason."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from narthex._base.origin import NOWHERE
from narthex._sdk.closure import resolve
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.compat import fennel
from narthex.compat.connectors import OmittedArgument
from narthex.compat.serving import ROOT, SERVED, FennelModuleFinder
from narthex.datasets import dataset
from narthex.errors import FennelInstalled
from tests.cases import every

NAMES = {
    "fennel": "connectors extractor featureset meta Count FirstK LastK pipeline",
    "fennel._vendor": "requests",
    "fennel.client": "Client",
    "fennel.connectors": (
        "source Webhook S3 Kafka sink Postgres eval ref Snowflake MySQL Certificate HTTP Avro "
        "Protobuf Kinesis PubSub Mongo BigQuery Redshift"
    ),
    "fennel.connectors.connectors": "Sample",
    "fennel.datasets": (
        "dataset field pipeline Dataset Count Sum Average Min Max LastK Quantile Stddev FirstK "
        "Distinct ExpDecaySum"
    ),
    "fennel.dtypes": (
        "Continuous struct oneof Window Tumbling Session between regex Decimal Hopping Embedding"
    ),
    "fennel.expr": "col lit when now repeat InvalidExprException from_epoch datetime var",
    "fennel.expr.expr": "col make_struct lit when",
    "fennel.featuresets": "featureset feature extractor",
    "fennel.integrations.aws": "Secret",
    "fennel.lib": (
        "inputs meta outputs includes expectations expect_column_values_to_be_between bucketize "
        "secrets expect_column_pair_values_A_to_be_greater_than_B "
        "expect_column_values_to_be_in_set"
    ),
    "fennel.lib.metadata": "meta",
    "fennel.lib.params": "inputs",
    "fennel.lib.schema": "inputs struct Window",
    "fennel.testing": "mock log MockClient InternalTestClient almost_equal",
}
"""The imports of the tests, examples and pages of Fennel's client, by module."""

PAIRS = [(module, name) for module, names in NAMES.items() for name in names.split()]


@pytest.fixture
def without_fennel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take away what serves `fennel`, and all of it that was imported; put it back at the end."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == ROOT}
    for name in kept:
        del sys.modules[name]
    monkeypatch.setattr(
        sys,
        "meta_path",
        [finder for finder in sys.meta_path if not isinstance(finder, FennelModuleFinder)],
    )
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == ROOT]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.fixture
def served(without_fennel: None) -> None:
    del without_fennel
    fennel.install()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a package `fennel` on the path of imports."""
    (tmp_path / ROOT).mkdir()
    file = tmp_path / ROOT / "__init__.py"
    file.write_text("OTHER = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return file


@every(("module", "name"), PAIRS)
@pytest.mark.usefixtures("served")
def test_every_name_that_fennel_authors_import_is_there(module: str, name: str) -> None:
    found = importlib.import_module(module)

    assert getattr(found, name) is not None


@pytest.mark.usefixtures("served")
def test_all_of_testing_can_be_imported_at_once() -> None:
    names = importlib.import_module("fennel.testing").__all__

    assert {"mock", "log", "MockClient", "InternalTestClient", "almost_equal"} <= set(names)


@every("module", SERVED)
@pytest.mark.usefixtures("served")
def test_every_module_can_be_imported_alone(module: str) -> None:
    assert importlib.import_module(module).__name__ == module


@pytest.mark.usefixtures("served")
def test_a_part_is_found_by_its_path_without_an_import_of_its_own() -> None:
    found = importlib.import_module("fennel")

    assert found.lib.metadata.meta is found.meta


@pytest.mark.usefixtures("served")
def test_a_name_keeps_its_meaning_when_a_part_of_that_name_is_imported_after_it() -> None:
    lib = importlib.import_module("fennel.lib")

    importlib.import_module("fennel.lib.expectations")

    assert callable(lib.expectations)


@pytest.mark.usefixtures("served")
def test_unsupported_names_are_reported_by_name() -> None:
    with pytest.raises(AttributeError, match="`fennel` has no `gen` in Narthex"):
        _ = importlib.import_module("fennel").gen
    with pytest.raises(ModuleNotFoundError, match=r"fennel\.gen"):
        importlib.import_module("fennel.gen")


@pytest.mark.usefixtures("served")
def test_statuses_have_fennels_names() -> None:
    codes = importlib.import_module("fennel._vendor.requests").codes

    assert (codes.OK, codes.ok, codes.SERVER_ERROR, codes.not_found) == (200, 200, 500, 404)


@pytest.mark.usefixtures("without_fennel")
def test_a_fennel_that_is_installed_is_not_hidden_silently(package: Path) -> None:
    with pytest.raises(FennelInstalled) as raised:
        fennel.install()

    assert str(package) in str(raised.value)
    assert "--shadow-fennel" in raised.value.hint
    assert importlib.import_module("fennel").OTHER


@pytest.mark.usefixtures("without_fennel")
def test_a_fennel_that_is_installed_is_hidden_on_demand_and_aloud(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    importlib.import_module("fennel")

    fennel.install_over()

    assert importlib.import_module("fennel").meta
    assert str(package) in capsys.readouterr().err


@pytest.mark.usefixtures("without_fennel")
def test_a_bare_directory_named_fennel_is_not_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fennel" / "client_tests").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)

    fennel.install()

    assert importlib.import_module("fennel").meta


@pytest.mark.usefixtures("served")
def test_installing_twice_changes_nothing() -> None:
    before = list(sys.meta_path)

    fennel.install()
    fennel.install_over()

    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("made", "ignored"),
    [
        (lambda c: c.Webhook("w", retention="3d").endpoint("e"), "retention"),
        (lambda c: c.Kafka("k", "b", verify_cert=False).topic("t"), "verify_cert"),
        (lambda c: c.S3("s").bucket("b", prefix="x", presorted=True), "presorted"),
    ],
)
@pytest.mark.usefixtures("served")
def test_options_without_an_effect_are_left_out_with_a_warning(
    made: Callable[[Any], object], ignored: str
) -> None:
    connectors = importlib.import_module("fennel.connectors")

    with pytest.warns(OmittedArgument, match=f"`{ignored}` of `.*` has no effect"):
        assert made(connectors)


@pytest.mark.usefixtures("served")
def test_expectations_that_cannot_be_computed_are_left_out_with_a_warning() -> None:
    lib = importlib.import_module("fennel.lib")

    def promised(_: type) -> list[object]:
        return [
            lib.expect_column_values_to_be_between(column="nope", min_value=1),
            lib.expect_column_values_to_not_be_null("uid"),
            lib.expect_column_values_to_match_regex("uid", "("),
        ]

    parts = {"__annotations__": {"uid": int, "at": datetime}, "e": lib.expectations(promised)}
    with pytest.warns(OmittedArgument, match="`Clicks` is left out") as warned:
        clicks = dataset(type("Clicks", (), parts))

    (kept,) = dataset_entity(clicks).expectations
    assert kept.kind == "expect_column_values_to_not_be_null"
    assert len(warned) == 2
    assert "is about `nope`, which is not a field" in str(warned[0].message)


@pytest.mark.usefixtures("served")
def test_a_stream_may_have_an_interval_in_code_for_fennel() -> None:
    c = importlib.import_module("fennel.connectors")
    clicks = type("Clicks", (), {"__annotations__": {"uid": int, "at": datetime}})

    read = c.source(c.Webhook("w").endpoint("e"), "1h", "append", every="1m")(dataset(clicks))

    (found,) = dataset_entity(read).sources
    assert found.every_us is None


AUTHOR = """
from fennel.internal_lib.duration import duration_to_timedelta as span

def entry(df):
    return df["at"] + span("1d")
"""


@pytest.mark.usefixtures("served")
def test_code_that_travels_names_narthex_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "author_of_spans.py").write_text(AUTHOR, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    author = importlib.import_module("author_of_spans")

    code = resolve(author.entry, what="the function", origin=NOWHERE)

    assert "from narthex.compat.durations import duration_to_timedelta as span" in code.source
    assert "fennel" not in code.source


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


SCRIPT = """
import sys
from datetime import datetime
from fennel.datasets import dataset, field
import beside

@dataset(version=beside.VERSION)
class Orders:
    at: datetime = field(timestamp=True)

print(Orders, sys.argv, __name__)
"""


@pytest.mark.slow
def test_a_script_runs_with_its_arguments_and_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "code" / "beside.py").write_text("VERSION = 3\n", encoding="utf-8")

    ended = run("narthex.compat.fennel", "code/script.py", "--fast", "7", cwd=tmp_path)

    expected = "<dataset Orders@3> ['code/script.py', '--fast', '7'] __main__\n"
    assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr


@pytest.mark.slow
def test_a_module_runs_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "beside.py").write_text("VERSION = 4\n", encoding="utf-8")

    ended = run("narthex.compat.fennel", "-m", "script", "--slow", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert "<dataset Orders@4>" in ended.stdout
    assert "'--slow'" in ended.stdout


@pytest.mark.slow
def test_a_command_line_without_a_script_prints_its_usage(tmp_path: Path) -> None:
    ended = run("narthex.compat.fennel", cwd=tmp_path)

    assert ended.returncode == 2
    assert "SCRIPT" in ended.stderr


@pytest.mark.slow
def test_a_script_does_not_run_where_another_fennel_is_installed(tmp_path: Path) -> None:
    (tmp_path / ROOT).mkdir()
    (tmp_path / ROOT / "__init__.py").touch()
    (tmp_path / "script.py").write_text("print('ran')\n", encoding="utf-8")

    refused = run("narthex.compat.fennel", "script.py", cwd=tmp_path)
    hidden = run("narthex.compat.fennel", "--shadow-fennel", "script.py", cwd=tmp_path)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "[NX957]" in refused.stderr
    assert (hidden.returncode, hidden.stdout) == (0, "ran\n")
    assert "means Narthex here" in hidden.stderr


TESTS = """
from datetime import datetime, timezone
import pandas as pd
import pytest
import fennel._vendor.requests as requests
from fennel.connectors import Webhook, source
from fennel.datasets import dataset, field
from fennel.testing import mock

__owner__ = "a@b.co"

@dataset(index=True)
@source(Webhook(name="w").endpoint("users"), disorder="1d", cdc="upsert")
class Users:
    uid: int = field(key=True)
    name: str
    at: datetime

@mock
def test_a_row_is_found(client):
    client.commit(message="first", datasets=[Users])
    row = {"uid": 1, "name": "Ann", "at": datetime(2024, 1, 1, tzinfo=timezone.utc)}
    answer = client.log("w", "users", pd.DataFrame([row]))
    assert answer.status_code == requests.codes.OK
    found, known = client.lookup(Users, keys=pd.DataFrame({"uid": [1, 2]}))
    assert found["name"].tolist() == ["Ann", pd.NA]
    assert known.tolist() == [True, False]

def test_a_mistake_is_of_the_class_that_fennel_raised():
    with pytest.raises(ValueError):
        @dataset(index=True)
        class Keyless:
            at: datetime
"""


@pytest.mark.slow
def test_tests_of_fennel_authors_run_with_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")

    ended = run("pytest", "-p", "narthex.compat.fennel", "-q", "test_mine.py", cwd=tmp_path)

    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
def test_pytest_stops_before_it_reads_a_test_where_another_fennel_is(tmp_path: Path) -> None:
    (tmp_path / ROOT).mkdir()
    (tmp_path / ROOT / "__init__.py").touch()
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")

    ended = run("pytest", "-p", "narthex.compat.fennel", "-q", "test_mine.py", cwd=tmp_path)

    assert ended.returncode == 1
    assert "[NX957]" in ended.stderr
    assert "passed" not in ended.stdout
