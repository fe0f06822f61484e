"""The Helm chart: what it renders is valid, has every role of compose, and names only what exists.

`tests/stack/helm` has what Helm rendered, for three files of values. Where Helm is installed it
renders again; elsewhere, a test fails if the chart or the values changed after the last rendering:
`python -m tests.stack.test_helm` renders anew.
"""

import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import kubernetes_validate
import pytest
import yaml

from narthex.settings import HOME_GROUP, Settings
from narthex_server.reads.pages import HEALTH
from narthex_stack.install.layout import HomeLayout
from tests.stack.control_plane import SEARCHED, VARIABLES

DOCKER: Final = Path(__file__).parents[2] / "docker"
CHART: Final = DOCKER / "helm" / "narthex"
RENDERED: Final = Path(__file__).parent / "helm"
CASES: Final = ("default", "full", "own_airflow")
KUBERNETES: Final = ("1.30", "1.34", "1.37")
GIVEN: Final = {"postgres", "kafka"}
"""The services of compose that a company gives to the chart."""

WITH_PODS: Final = {"Deployment", "StatefulSet", "Job"}
OTHERS: Final = (HOME_GROUP, "POD_NAME", "AWS_REGION", "AWS_SECRET_ACCESS_KEY")
PREPARING: Final = {"passwords", "home"}
"""The containers that end before the others of their pod begin."""

_DIGEST: Final = "# sha256 of the chart and the values: "

Manifest = dict[str, Any]


def digest(case: str) -> str:
    """Return the digest of all that Helm renders a case from."""
    files = [path for path in CHART.rglob("*") if path.is_file()]
    found = hashlib.sha256()
    for path in [*sorted(files), RENDERED / f"{case}.values.yaml"]:
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


def render(case: str) -> str:
    """Render the chart with Helm."""
    values = RENDERED / f"{case}.values.yaml"
    command = ("helm", "template", "narthex", str(CHART), "--values", str(values))
    done = subprocess.run(
        (*command, "--kube-version", f"{KUBERNETES[-1]}.0"),
        check=False,
        capture_output=True,
        text=True,
        env=VARIABLES,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def manifests(case: str) -> tuple[Manifest, ...]:
    text = (RENDERED / f"{case}.yaml").read_text()
    return tuple(one for one in yaml.safe_load_all(text) if one is not None)


@attrs.frozen(kw_only=True)
class Pod:
    """The pods of a role, and one of their containers."""

    role: str
    kind: str
    spec: Manifest
    container: Manifest

    @property
    def plain_variables(self) -> dict[str, str]:
        return {
            one["name"]: one["value"] for one in self.container.get("env", ()) if "value" in one
        }

    @property
    def secret_variables(self) -> dict[str, str]:
        return {
            one["name"]: one["valueFrom"]["secretKeyRef"]["key"]
            for one in self.container.get("env", ())
            if "secretKeyRef" in one.get("valueFrom", {})
        }


def role_of(manifest: Manifest) -> str:
    return manifest["metadata"]["labels"]["app.kubernetes.io/component"]


def of_kind(case: str, *kinds: str) -> dict[str, Manifest]:
    return {role_of(one): one for one in manifests(case) if one["kind"] in kinds}


def pods(case: str) -> Iterator[Pod]:
    for role, one in of_kind(case, *WITH_PODS).items():
        spec = one["spec"]["template"]["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield Pod(role=role, kind=one["kind"], spec=spec, container=container)


@pytest.fixture(scope="module")
def compose() -> Mapping[str, Any]:
    return yaml.safe_load((DOCKER / "compose.yml").read_text())["services"]


@pytest.mark.parametrize("case", CASES)
def test_the_stored_output_was_rendered_from_this_chart(case: str) -> None:
    first, _, rest = (RENDERED / f"{case}.yaml").read_text().partition("\n")

    assert first == f"{_DIGEST}{digest(case)}", "run `python -m tests.stack.test_helm` with Helm"
    if shutil.which("helm", path=SEARCHED):
        assert rest == render(case)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("case", CASES)
def test_each_manifest_is_valid_for_kubernetes(case: str, version: str) -> None:
    for one in manifests(case):
        kubernetes_validate.validate(one, version, strict=True)


def test_the_chart_has_every_role_of_compose(compose: Mapping[str, Any]) -> None:
    roles = set(of_kind("default", *WITH_PODS))

    assert roles == (set(compose) - GIVEN) | {"reads", "upgrade"}
    assert set(of_kind("own_airflow", *WITH_PODS)) == {"server", "reads", "supervisor", "upgrade"}


def test_images_and_commands_are_those_of_compose(compose: Mapping[str, Any]) -> None:
    for pod in pods("default"):
        assert pod.container["image"] == compose["server"]["image"], pod.role
        if pod.role in {"airflow-scheduler", "airflow-triggerer", "airflow-dag-processor"}:
            assert pod.container["args"] == compose[pod.role]["command"]
        user = f"{pod.spec['securityContext']['runAsUser']}"
        assert compose["server"]["user"] == f"{user}:{user}"


@pytest.mark.parametrize("case", CASES)
def test_each_variable_is_a_setting(case: str, compose: Mapping[str, Any]) -> None:
    known = {f"NARTHEX_{field.name.upper()}" for field in attrs.fields(Settings)}
    airflow = {name for name in compose["airflow-scheduler"]["environment"] if "AIRFLOW_" in name}

    for pod in pods(case):
        names = [one["name"] for one in pod.container.get("env", ())]
        assert len(names) == len({*names}), (pod.role, names)
        assert {*names} <= known | airflow | {*OTHERS}


def test_each_required_setting_is_set() -> None:
    required = {
        f"NARTHEX_{field.name.upper()}"
        for field in attrs.fields(Settings)
        if field.default is attrs.NOTHING
    }
    for pod in pods("default"):
        if (
            pod.role not in {"upgrade", "airflow-migrate"}
            and pod.container["name"] not in PREPARING
        ):
            assert required <= {one["name"] for one in pod.container["env"]}, pod.role


@pytest.mark.parametrize("case", CASES)
def test_secrets_are_keys_of_a_secret(case: str) -> None:
    secret = {f"NARTHEX_{one.name.upper()}" for one in attrs.fields(Settings) if not one.repr}
    word = re.compile("PASSWORD$|TOKEN|SECRET|_KEY$|DSN|SQL_ALCHEMY")

    for pod in pods(case):
        for name, value in pod.plain_variables.items():
            assert name not in secret or value == "", (pod.role, name)
            assert not word.search(name) or value == "", (pod.role, name)
    assert not of_kind(case, "Secret", "ConfigMap")


def test_airflow_has_its_own_token_and_no_account_of_the_platform() -> None:
    for pod in pods("default"):
        if pod.role.startswith("airflow-") and pod.container["name"] not in PREPARING:
            assert pod.secret_variables["NARTHEX_TOKEN"] == "dags-token"
            assert pod.plain_variables["NARTHEX_AIRFLOW_PASSWORD"] == ""
        if pod.container["name"] in {"server", "reads", "supervisor"}:
            assert pod.secret_variables["NARTHEX_TOKEN"] == "token"


@pytest.mark.parametrize("case", CASES)
def test_no_container_has_rights(case: str) -> None:
    for pod in pods(case):
        assert pod.spec["securityContext"]["runAsNonRoot"] is True
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["enableServiceLinks"] is False
        assert pod.container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        resources = pod.container["resources"]
        assert set(resources["requests"]) == {"cpu", "memory"}
        assert resources["limits"]["memory"], pod.role


@pytest.mark.parametrize("case", CASES)
def test_each_mount_has_its_volume(case: str) -> None:
    claims = {one["metadata"]["name"] for one in manifests(case) if "Claim" in one["kind"]}
    for pod in pods(case):
        volumes = {one["name"]: one for one in pod.spec["volumes"]}
        mounts = [one["mountPath"] for one in pod.container["volumeMounts"]]
        assert {one["name"] for one in pod.container["volumeMounts"]} <= set(volumes)
        assert len(mounts) == len({*mounts})
        named = {
            one["persistentVolumeClaim"]["claimName"]
            for one in volumes.values()
            if "persistentVolumeClaim" in one
        }
        assert named <= claims | {"our-files"}, pod.role


def test_probes_call_what_exists(compose: Mapping[str, Any]) -> None:
    health = {"server": HEALTH, "reads": HEALTH, "airflow-api-server": "/api/v2/monitor/health"}
    checks = {
        role: f"{compose[role]['healthcheck']['test']}" for role in (*health,) if role != "reads"
    }
    for pod in pods("default"):
        if pod.kind == "Job" or pod.container["name"] in PREPARING:
            assert not {*pod.container} & {"livenessProbe", "readinessProbe", "startupProbe"}
            continue
        probes = {name: one for name, one in pod.container.items() if name.endswith("Probe")}
        assert "livenessProbe" in probes, pod.role
        if pod.role in health:
            port = pod.container["ports"][0]["containerPort"]
            assert {*probes} == {"startupProbe", "readinessProbe", "livenessProbe"}
            assert probes["readinessProbe"]["httpGet"]["path"] == health[pod.role]
            if pod.role in checks:
                assert f":{port}{health[pod.role]}" in checks[pod.role]


def test_the_supervisor_s_probe_reads_the_file_that_it_touches() -> None:
    (pod,) = (one for one in pods("default") if one.container["name"] == "supervisor")
    home = Path(pod.plain_variables["NARTHEX_HOME"])
    file = HomeLayout(home).heartbeat("POD").relative_to(home)

    assert pod.container["args"] == ["narthex", "supervisor", "--name", "$(POD_NAME)"]
    for name in ("startupProbe", "livenessProbe"):
        code = pod.container[name]["exec"]["command"][2]
        assert f"{home}/{file}" in code.replace("{os.environ['POD_NAME']}", "POD")
        compile(code, name, "exec")


def test_services_lead_to_the_port_on_which_a_role_listens() -> None:
    urls = {"server": "NARTHEX_SERVER_URL", "reads": "NARTHEX_READS_URL"}
    found = {one.role: one for one in pods("default") if one.container["name"] == one.role}
    services = of_kind("default", "Service")
    for role, variable in urls.items():
        port = found[role].container["ports"][0]["containerPort"]
        assert found[role].plain_variables[variable] == f"http://0.0.0.0:{port}"
        assert services[role]["spec"]["ports"][0]["port"] == port
    callers = {
        one.plain_variables["NARTHEX_SERVER_URL"]
        for one in found.values()
        if one.role in {"reads", "supervisor", "airflow-scheduler"}
    }
    assert callers == {f"http://{services['server']['metadata']['name']}:8400"}


def test_read_processes_are_scaled_and_all_roles_have_a_budget() -> None:
    (scaler,) = of_kind("default", "HorizontalPodAutoscaler").values()
    reads = of_kind("default", "Deployment")["reads"]

    assert scaler["spec"]["scaleTargetRef"]["name"] == reads["metadata"]["name"]
    assert "replicas" not in reads["spec"]
    assert set(of_kind("default", "PodDisruptionBudget")) == set(
        of_kind("default", "Deployment", "StatefulSet")
    )


def test_everything_is_refused_that_no_policy_allows() -> None:
    policies = of_kind("default", "NetworkPolicy")
    labels = {"app.kubernetes.io/name": "narthex", "app.kubernetes.io/instance": "narthex"}
    deny = policies.pop("default-deny")["spec"]

    assert deny == {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
    }
    assert set(policies) == set(of_kind("default", *WITH_PODS))
    assert "ingress" not in policies["supervisor"]["spec"]
    assert "ingress" not in policies["reads"]["spec"], "no client is allowed by default"
    assert _callers(policies["server"]) == {
        *("supervisor", "airflow-scheduler", "airflow-triggerer"),
        *("airflow-dag-processor", "airflow-api-server"),
    }
    assert {one["port"] for one in _ports(policies["upgrade"], "egress")} == {53, 5432}
    for role, policy in policies.items():
        assert policy["spec"]["podSelector"]["matchLabels"] == {
            **labels,
            "app.kubernetes.io/component": role,
        }


def test_clients_reach_only_ports_that_listen() -> None:
    policies = of_kind("full", "NetworkPolicy")
    listening = {
        one.role: one.container["ports"] for one in pods("full") if "ports" in one.container
    }

    open_to = {role for role, one in policies.items() if "ingress" in one["spec"]}
    assert open_to == set(listening)
    for role in open_to:
        ports = {one["port"] for one in _ports(policies[role], "ingress")}
        assert ports == {one["containerPort"] for one in listening[role]}
        assert {"namespaceSelector": {"matchLabels": {"name": "ingress"}}} in _peers(policies[role])


def _ports(policy: Manifest, way: str) -> list[Manifest]:
    return [port for rule in policy["spec"][way] for port in rule["ports"]]


def _peers(policy: Manifest) -> list[Manifest]:
    return [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]


def _callers(policy: Manifest) -> set[str]:
    return {
        one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in _peers(policy)
    }


def test_the_version_is_that_of_the_image(compose: Mapping[str, Any]) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert compose["server"]["image"].endswith(f":{chart['appVersion']}")
    assert json.dumps(chart["version"]) == json.dumps(chart["appVersion"])


if __name__ == "__main__":
    for each in CASES:
        (RENDERED / f"{each}.yaml").write_text(f"{_DIGEST}{digest(each)}\n{render(each)}")


def test_the_home_is_a_directory_of_the_volume_that_the_image_s_account_makes() -> None:
    """The kubelet leaves the root of a volume to root, and open to all."""
    for pod in pods("default"):
        variables = pod.plain_variables
        if pod.kind == "Job" or "NARTHEX_HOME" not in variables:
            continue
        mounts = {Path(one["mountPath"]) for one in pod.container["volumeMounts"]}
        home = Path(variables["NARTHEX_HOME"])
        assert home.parent in mounts
        assert home not in mounts
        assert variables["NARTHEX_HOME_GROUP"] == "on"
        below = {one for one in mounts if one.is_relative_to(home)}
        (made, *_) = [
            one["args"][2] for one in pod.spec.get("initContainers", []) if one["name"] == "home"
        ] or [""]
        assert made.startswith("umask 077 && ") or not below
        assert all(f" {one}" in made for one in below)
