"""The commands of the page on Kubernetes, against a control plane where its programs are installed.

There is no node: the API server admits all that the chart makes, the controllers make the pods, and
no container runs. The pods of jobs are reported as succeeded, so that Helm goes on.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.guides.pages import DOCS, ROOT, blocks
from tests.guides.shell import Shell
from tests.stack.control_plane import VARIABLES, ControlPlane, control_plane, missing_programs

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"`make kubernetes` was not run, or not installed: {missing_programs()}",
    ),
    pytest.mark.nightly,
]

PAGE: Final = DOCS / "guide" / "kubernetes.md"
SPACE: Final = ("--namespace", "narthex")
ROLES: Final = {
    "narthex-server": 1,
    "narthex-reads": 2,
    "narthex-supervisor": 2,
    "narthex-airflow-scheduler": 1,
    "narthex-airflow-triggerer": 1,
    "narthex-airflow-dag-processor": 1,
    "narthex-airflow-api-server": 1,
}
"""The pods of each role, as the page has them."""

PODS_S: Final = 60.0
"""How long controllers may take to make the pods."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("kubernetes") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A person beside a checkout, with the values of the page."""
    directory = tmp_path_factory.mktemp("operator")
    (directory / "docker").symlink_to(ROOT / "docker")
    values = next(one.text for one in blocks(PAGE, "yaml") if "installId" in one.text)
    (directory / "values.yaml").write_text(values)
    own = {"KUBECONFIG": str(plane.kubeconfig), "HOME": str(directory)}
    return Shell(directory=directory, variables=VARIABLES | own)


def types(plane: ControlPlane, operator: Shell, lines: str) -> str:
    """Run lines of the page, while the pods of jobs succeed."""
    ended = threading.Event()

    def end_jobs() -> None:
        while not ended.wait(1.0):
            try:
                plane.end_pods_of_jobs("narthex")
            except (AssertionError, subprocess.SubprocessError):
                continue  # the namespace is not there yet

    thread = threading.Thread(target=end_jobs)
    thread.start()
    try:
        return operator.types(lines)
    finally:
        ended.set()
        thread.join()


def replicas(plane: ControlPlane) -> dict[str, int]:
    found = plane.read(*SPACE, "get", "deployments,statefulsets")["items"]
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}


def pods(plane: ControlPlane) -> list[str]:
    """Return the roles of the pods that are there, without those of jobs."""
    found: list[dict[str, Any]] = plane.read(*SPACE, "get", "pods", "--selector", "!job-name")[
        "items"
    ]
    return sorted(one["metadata"]["labels"]["app.kubernetes.io/component"] for one in found)


def test_the_commands_of_the_page_install_and_upgrade(plane: ControlPlane, operator: Shell) -> None:
    install, upgrade = blocks(PAGE, "sh kubernetes")

    installed = types(plane, operator, install.text)

    assert "namespace/narthex created" in installed
    assert "secret/narthex-keys created" in installed
    assert "STATUS: deployed" in installed
    made = replicas(plane)
    # The autoscaler decides how many processes read; without one, the deployment has one pod.
    assert made.keys() == ROLES.keys()
    assert {name: made[name] for name in made if name != "narthex-reads"} == {
        name: count for name, count in ROLES.items() if name != "narthex-reads"
    }
    ends_at = time.monotonic() + PODS_S
    while {f"narthex-{role}" for role in pods(plane)} != ROLES.keys():
        assert time.monotonic() < ends_at, pods(plane)
        time.sleep(0.5)
    jobs = plane.read(*SPACE, "get", "jobs")["items"]
    assert {one["metadata"]["name"]: one["status"].get("succeeded") for one in jobs} == {
        "narthex-upgrade": 1,
        "narthex-airflow-migrate": 1,
    }

    upgraded = types(plane, operator, upgrade.text)

    assert "scaled" in upgraded
    assert "REVISION: 2" in upgraded
    again = replicas(plane)
    assert {name: again[name] for name in again if name != "narthex-reads"} == {
        name: count for name, count in ROLES.items() if name != "narthex-reads"
    }
