"""An environment in which `pyspark-client` has overwritten PySpark is refused with the remedy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex_stack.errors import OverwrittenError
from narthex_stack.operator.stack import Stack

REMEDY = "`pip uninstall --yes pyspark-client apache-airflow-providers-apache-spark`"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Describe an installed `pyspark-client`; return a directory that does not exist."""
    described = tmp_path / "packages" / "pyspark_client-4.2.0.dist-info" / "METADATA"
    described.parent.mkdir(parents=True)
    described.write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    return tmp_path / "home"


def test_nothing_is_made_before_the_refusal(home: Path) -> None:
    with pytest.raises(OverwrittenError, match="has overwritten files of `pyspark`") as told:
        Stack(home).launch()

    assert REMEDY in str(told.value)
    assert not home.exists()


@pytest.mark.parametrize("command", ["up", "status"])
def test_commands_name_the_remedy(home: Path, command: str) -> None:
    options = ["--json"] if command == "status" else []

    done = CliRunner().invoke(make_app(), [command, "--home", str(home), *options])

    assert done.exit_code == 1
    assert REMEDY in done.stderr


def test_a_whole_environment_is_not_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(make_app(), ["status", "--home", str(tmp_path), "--json"])

    assert "pyspark" not in done.output
