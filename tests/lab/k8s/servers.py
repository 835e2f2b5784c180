"""A Kubernetes control plane without nodes: etcd, kube-apiserver and its controllers on loopback.

Objects are admitted, stored, changed and deleted as on any cluster, and controllers make the pods
of Deployments and StatefulSets. No pod ever runs, because there is no node.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import manifests
from tests.support.places import ROOT

BUILD = Path(__file__).with_name("build_servers.sh")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
BUILD_SECONDS = 7200
LIFETIME_SECONDS = 3600  # after which servers end by themselves
# What the tests need of the controllers; none of them asks for a node.
CONTROLLERS = (
    "deployment",
    "garbagecollector",
    "namespace",
    "pvc-protection",
    "replicaset",
    "resourcequota",
    "serviceaccount",
    "statefulset",
)
TRANSIENT = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}
RULES = "x-kubernetes-validations"
Key = tuple[str, str, str]  # kind, namespace, name


def programs() -> tuple[Path | None, str]:
    """The folder of the servers, built if missing; or None and the reason."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("ABLATE_CONTROL_PLANE") or cache / "ablate" / "control-plane")
    if not _complete(folder):
        reason = _build(folder)
        if reason:
            return None, f"no control plane in {folder}, and it cannot be built: {reason}"
    return folder / "bin", ""


def _complete(folder: Path) -> bool:
    return all((folder / "bin" / name).exists() for name in PROGRAMS)


def _build(folder: Path) -> str:
    """Build the servers; the reason if that failed."""
    for program in ("apt-get", "dpkg-source"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    command = ["timeout", str(BUILD_SECONDS), "sh", str(BUILD), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    why = {124: f"not ready after {BUILD_SECONDS} s"}.get(done.returncode)
    return why or f"{BUILD.name} ended with status {done.returncode}: {done.stderr[-500:].strip()}"


def free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def wait(condition: Callable[[], Any], what: str, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds} s: {what}"
        time.sleep(0.2)


# Kubernetes 1.20 knows a kind by the version before the manifests', with the same fields.
OLDER = ("CronJob",)
KUBECTL = """#!/bin/sh
set -e
older=$(mktemp)
trap 'rm -f "$older"' EXIT
count=$#
while [ "$count" -gt 0 ]; do
  word=$1
  shift
  count=$((count - 1))
  if [ "$word" = -k ]; then
    {kubectl} kustomize "$1" |
      sed -e '/^apiVersion: batch.v1$/{{N;s|v1\\nkind: CronJob|v1beta1\\nkind: CronJob|}}' \\
        > "$older"
    shift
    count=$((count - 1))
    set -- "$@" -f "$older"
  else
    set -- "$@" "$word"
  fi
done
{kubectl} "$@"
"""


@dataclass
class ControlPlane:
    """Servers that run, and `kubectl` for them."""

    bin: Path
    folder: Path

    def __enter__(self) -> ControlPlane:
        self._servers: list[subprocess.Popen[bytes]] = []
        older = self.folder / "older" / "kubectl"
        older.parent.mkdir()
        older.write_text(KUBECTL.format(kubectl=shutil.which("kubectl")))
        older.chmod(0o755)
        # etcd waits for the disk at every change, and gives up on a busy one.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._data = tempfile.TemporaryDirectory(prefix="ablate-etcd-", dir=memory)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in reversed(self._servers):
            server.terminate()  # `timeout` passes it on
        for server in reversed(self._servers):
            server.wait(60)
        self._data.cleanup()

    def _start(self) -> None:
        etcd, peers, port = free_ports(3)
        token = secrets.token_hex(16)
        (self.folder / "tokens").write_text(f"{token},tester,tester,system:masters\n")
        (self.folder / "kubeconfig").write_text(json.dumps(_kubeconfig(port, token)))
        key = str(self.folder / "key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        self._serve("etcd", _etcd(self._data.name, etcd, peers))
        self._serve("kube-apiserver", _api_server(self.folder, etcd, port))
        wait(lambda: self._answers("/readyz"), self._log("kube-apiserver"))
        self._serve("kube-controller-manager", _controllers(self.folder))
        default = ("get", "serviceaccount", "default", "-o", "name")
        wait(lambda: self.run(*default).returncode == 0, self._log("kube-controller-manager"))

    def _serve(self, name: str, options: Mapping[str, str]) -> None:
        words = [f"--{option}={value}" for option, value in options.items()]
        guard = ["timeout", "--kill-after=10", str(LIFETIME_SECONDS)]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._servers.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "TERM", *guard, str(self.bin / name), *words],
                    stdout=log,
                    stderr=log,
                )
            )

    def _log(self, name: str) -> str:
        return f"{name} does not answer; see {self.folder}/{name}.log"

    def _answers(self, path: str) -> bool:
        return self.run("get", "--raw", path).returncode == 0

    @property
    def environment(self) -> dict[str, str]:
        home = str(self.folder)
        path = f"{self.folder}/older:{os.environ['PATH']}"
        inherited = {"PATH": path, "NO_PROXY": "127.0.0.1"}
        return {**inherited, "HOME": home, "KUBECONFIG": f"{home}/kubeconfig"}

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as the README shows it, at the top of the repository."""
        return subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *words],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr[:3000]
        return done.stdout

    def create(self, items: Sequence[Mapping[str, Any]]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.kubectl("create", "--validate=false", "-f", "-", stdin=text)

    def everything(self) -> dict[Key, Mapping[str, Any]]:
        """All objects of the cluster, except those that come and go by themselves."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        wanted = ",".join(kind for kind in kinds if kind not in TRANSIENT)
        found = json.loads(self.kubectl("get", wanted, "--all-namespaces", "-o", "json"))
        return {key(item): item for item in found["items"]}


def key(item: Mapping[str, Any]) -> Key:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def _kubeconfig(port: int, token: str) -> dict[str, Any]:
    server = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }


def _etcd(folder: str, port: int, peers: int) -> dict[str, str]:
    clients, others = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    return {
        "data-dir": folder,
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": others,
        "initial-advertise-peer-urls": others,
        "initial-cluster": f"default={others}",
    }


def _api_server(folder: Path, etcd: int, port: int) -> dict[str, str]:
    return {
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",  # nobody has to find this server
        "secure-port": str(port),
        "cert-dir": str(folder / "certificates"),
        "token-auth-file": str(folder / "tokens"),
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "192.0.2.0/24",  # for documentation: no such host
        "service-account-issuer": "test",
        "service-account-key-file": str(folder / "key"),
        "service-account-signing-key-file": str(folder / "key"),
    }


def _controllers(folder: Path) -> dict[str, str]:
    return {
        "kubeconfig": str(folder / "kubeconfig"),
        "controllers": ",".join(CONTROLLERS),
        "leader-elect": "false",
        "port": "0",
        "secure-port": "0",
    }


# The operators' kinds: KubeRay's by its own schemas, Kueue's open, as we do not have its schemas.
KUEUE = {"ResourceFlavor": "Cluster", "ClusterQueue": "Cluster", "LocalQueue": "Namespaced"}


@functools.cache
def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions that the operators would bring."""
    schemas = json.loads(manifests.SCHEMAS.read_text())
    ray = [_definition(name, "Namespaced", _known(schema)) for name, schema in schemas.items()]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return ray + [
        _definition(f"kueue.x-k8s.io/v1beta2/{kind}", scope, anything)
        for kind, scope in KUEUE.items()
    ]


def _known(schema: Any) -> Any:
    """The schema without what this server is too old for: rules in CEL, empty texts as defaults."""
    if isinstance(schema, list):
        return [_known(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: _known(part) for name, part in schema.items() if name != RULES}
    return {**known, "default": "none"} if schema.get("default") == "" else known


def _definition(name: str, scope: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    group, version, kind = name.split("/")
    plural = f"{kind.lower()}s"
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }
