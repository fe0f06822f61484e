"""A control plane of Kubernetes without a node: its API accepts and its controllers make pods.

`make kubernetes` compiles its programs, except for etcd.
"""

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from narthex_stack.machine.files import tail
from narthex_stack.machine.ports import free_ports

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm")
STARTS_S: Final = 120.0

SEARCHED: Final = os.pathsep.join(
    (str(Path(__file__).parents[2] / "build" / "kubernetes"), os.environ["PATH"])
)
"""Where the programs are: those that were compiled, or else installed."""

VARIABLES: Final = {**os.environ, "PATH": SEARCHED}
"""The environment of a process that finds them."""


def missing_programs() -> list[str]:
    """Return the programs of a control plane, and of its users, that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]


@attrs.frozen(kw_only=True)
class ControlPlane:
    """A running one.

    Attributes:
        kubeconfig: The file by which `kubectl` and `helm` find it, with all rights.
    """

    kubeconfig: Path

    def read(self, *arguments: str) -> Any:
        """Return what `kubectl … --output json` prints."""
        return json.loads(self.call(*arguments, "--output", "json"))

    def call(self, *arguments: str) -> str:
        """Run `kubectl`; return what it prints.

        Raises:
            AssertionError: It failed.
        """
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=VARIABLES,
        )
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def end_pods_of_jobs(self, namespace: str) -> None:
        """Report the pods of jobs as succeeded, as a node does that has run them."""
        pods = self.read("--namespace", namespace, "get", "pods", "--selector", "job-name")["items"]
        for pod in pods:
            if pod["status"]["phase"] == "Pending":
                self.call(
                    *("--namespace", namespace, "patch", "pod", pod["metadata"]["name"]),
                    *("--subresource", "status", "--patch", '{"status": {"phase": "Succeeded"}}'),
                )


@contextmanager
def control_plane(home: Path) -> Iterator[ControlPlane]:
    """Run the store, the API server and the controllers of a control plane."""
    home.mkdir()
    client, peer, api = free_ports(3)
    token = secrets.token_hex(16)
    (home / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    _make_keys(home)
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(f"https://127.0.0.1:{api}", token)))
    here = f"http://127.0.0.1:{client}"
    store = {
        "data-dir": home / "etcd",
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
    }
    server = {
        "etcd-servers": here,
        "bind-address": "127.0.0.1",
        "secure-port": api,
        "cert-dir": home / "certificates",
        "token-auth-file": home / "tokens.csv",
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": home / "accounts.pub",
        "service-account-signing-key-file": home / "accounts.key",
        "service-cluster-ip-range": "10.0.0.0/24",
    }
    controllers = {
        "kubeconfig": kubeconfig,
        "service-account-private-key-file": home / "accounts.key",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": free_ports(1)[0],
        "cert-dir": home / "certificates",
    }
    plane = ControlPlane(kubeconfig=kubeconfig)
    with ExitStack() as running:
        for name, options in (("etcd", store), ("kube-apiserver", server)):
            running.enter_context(_running(home, name, options))
        _wait_for(plane, ["get", "--raw", "/readyz"], home / "kube-apiserver.log")
        running.enter_context(_running(home, "kube-controller-manager", controllers))
        made = ["get", "serviceaccount", "default"]
        _wait_for(plane, made, home / "kube-controller-manager.log")
        yield plane


def _make_keys(home: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (home / "accounts.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (home / "accounts.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _kubeconfig(server: str, token: str) -> Mapping[str, Any]:
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
        "current-context": "here",
    }


@contextmanager
def _running(home: Path, name: str, options: Mapping[str, object]) -> Iterator[None]:
    arguments = [f"--{option}={value}" for option, value in options.items()]
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [name, *arguments], stdout=log, stderr=log, cwd=home, env=VARIABLES
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(plane: ControlPlane, arguments: Sequence[str], log: Path) -> None:
    ends_at = time.monotonic() + STARTS_S
    while True:
        try:
            plane.call(*arguments)
        except AssertionError as error:
            if time.monotonic() > ends_at:
                raise TimeoutError(f"{error}\n{tail(log, lines=30)}") from None
            time.sleep(0.5)
        else:
            return
