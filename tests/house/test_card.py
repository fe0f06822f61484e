"""The project has the folders and the packages that its users asked for, each used."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dags", "plugins", "spark_apps", "ledger", "expectations", "docker", "tests")
PACKAGES = {
    "apache-airflow": "airflow.sdk",
    "apache-airflow-providers-apache-spark": "airflow.providers.apache.spark",
    "pyspark": "pyspark",
    "confluent-kafka": "confluent_kafka",
    "sqlalchemy": "sqlalchemy",
    "psycopg2-binary": "postgresql+psycopg2",
    "great-expectations": "great_expectations",
    "pytest": "pytest",
}
"""Each package, and the module that is imported of it, or how an engine's URL names it."""


def test_the_folders_are_at_the_top() -> None:
    assert [name for name in FOLDERS if not (ROOT / name).is_dir()] == []
    assert {path.suffix for path in (ROOT / "dags").iterdir() if path.is_file()} == {".py"}


def test_the_one_declaration_at_the_top_names_each_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [
        *declared["project"]["dependencies"],
        *(one for extra in declared["project"]["optional-dependencies"].values() for one in extra),
        *declared["dependency-groups"]["dev"],
    ]

    assert PACKAGES.keys() <= {Requirement(line).name for line in lines}
    assert [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")] == []


def test_each_package_is_used() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("core", "dags", *FOLDERS[1:5], "server", "stack", "stores")
        for path in (ROOT / folder).rglob("*.py")
    )
    unused = {
        name
        for name, module in PACKAGES.items()
        if not re.search(rf"^\s*(from|import) {re.escape(module)}\b", text, re.MULTILINE)
        if "+" not in module or module not in text
    }

    assert unused == set()
