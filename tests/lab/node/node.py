"""A real Kubernetes node on this machine, with `ablate`'s image and what an administrator gives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from ablate.store import journal as journals
from ablate.store.store import Store
from tests.lab.k8s import servers
from tests.support.places import ROOT

FOLDER = Path(__file__).parent
BASE = Path("/var/lib/ablate-node")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ablate"
IMAGE, PAUSE = "docker.io/library/ablate:0.2.0-cpu", "localhost/pause:1"
STORE = BASE / "volumes" / "store"  # of the pods, as this machine sees it
STUDY = ROOT / "k8s" / "overlays" / "plain" / "study"
NEEDED = ("kubectl", "containerd", "runc", "iptables", "conntrack", "dnsmasq", "debootstrap")
SETTING = f"export KUBECONFIG={BASE}/etc/kubeconfig HOME={BASE}; cd {ROOT}"
GATEWAY = "10.123.0.1"  # the node, for its pods


def run(*words: str | Path, stdin: str = "") -> str:
    done = subprocess.run([*map(str, words)], input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def wait_for(condition: Callable[[], object], what: str, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s: not {what}"
        time.sleep(0.5)


def packed(archive: Path, name: str) -> Path:
    """The image as a file, made where it is missing."""
    if not archive.exists():
        run("sh", ROOT / "k8s" / "image.sh", name, archive)
    return archive


class Node:
    """The node, and `kubectl` for it."""

    def __enter__(self) -> Node:
        folder, reason = servers.programs()
        assert folder is not None, reason
        run("sh", FOLDER / "node.sh", "up", folder)
        try:
            self._prepare(folder)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        run("sh", FOLDER / "node.sh", "down")

    def _prepare(self, programs: Path) -> None:
        pause = BASE / "pause"
        pause.mkdir(exist_ok=True)
        (pause / "pause").write_bytes((programs / "pause").read_bytes())
        (pause / "pause").chmod(0o755)
        pack = ROOT / "k8s" / "pack_image.py"
        run("python3", pack, PAUSE, pause, BASE / "pause.tar", "/pause")
        for archive in (BASE / "pause.tar", packed(CACHE / "image.tar", IMAGE)):
            self.run(
                "ctr",
                "-a",
                f"{BASE}/run/containerd.sock",
                "-n",
                "k8s.io",
                "images",
                "import",
                archive,
            )
        self.kubectl("create", "namespace", "ablate")
        self.kubectl("config", "set-context", "--current", "--namespace=ablate")
        volumes = [volume(name) for name in ("store", "records")]
        self.apply({"apiVersion": "v1", "kind": "List", "items": volumes})

    def answer_names(self) -> None:
        """Answer the names of Services inside the node: Debian 12 has dnsmasq, and no CoreDNS."""
        services = json.loads(self.kubectl("get", "services", "-o", "json"))["items"]
        places = [(each["metadata"]["name"], each["spec"]["clusterIP"]) for each in services]
        answers = [f"--address=/{name}.ablate.svc.cluster.local/{at}" for name, at in places]
        where = (f"--listen-address={GATEWAY}", "--bind-interfaces", "--pid-file=")
        self.run("dnsmasq", "--user=root", "--no-resolv", "--no-hosts", *where, *answers)

    def run(self, *words: str | Path, stdin: str = "") -> str:
        return run("sh", FOLDER / "node.sh", "in", *words, stdin=stdin)

    def kubectl(self, *words: str | Path, stdin: str = "") -> str:
        config = f"KUBECONFIG={BASE}/etc/kubeconfig"
        return self.run("env", config, f"HOME={BASE}", "kubectl", *words, stdin=stdin)

    def shell(self, command: str) -> str:
        """Run a command of the README, as it is printed there."""
        return self.run("sh", "-ec", f"{SETTING}; {command}")

    def answers(self, command: str, url: str) -> bool:
        """Return whether a URL is answered while such a command runs, which has no end."""
        words = ["sh", FOLDER / "node.sh", "in", "timeout", "60", "sh", "-ec"]
        fetch = f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).status)"
        with subprocess.Popen([*map(str, words), f"{SETTING}; exec {command}"]) as running:
            for _ in range(20):
                time.sleep(1)
                asked = [*words[:3], sys.executable, "-c", fetch]
                done = subprocess.run([*map(str, asked)], capture_output=True, text=True)
                if done.stdout.strip() == "200":
                    running.terminate()
                    return True
        return False

    def apply(self, item: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(item))

    def start(self, *words: str) -> None:
        """Apply the study's Job with these arguments."""
        job = yaml.safe_load(self.kubectl("kustomize", STUDY))
        job["spec"]["template"]["spec"]["containers"][0]["args"] = list(words)
        self.apply(job)

    def done(self) -> bool:
        status = json.loads(self.kubectl("get", "job", "study", "-o", "json"))["status"]
        failed = [each["type"] for each in status.get("conditions", ()) if each["type"] == "Failed"]
        assert not failed, self.kubectl("logs", "job/study", "--tail=50")
        return bool(status.get("succeeded"))


def volume(name: str) -> dict[str, Any]:
    """What an administrator, or a storage class, would give: empty."""
    folder = BASE / "volumes" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["ablate-node"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "ablate", "name": name},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def results(store: Path) -> dict[str, Any]:
    """What each trial found, to the bit."""
    return {
        name: (one.status, one.metrics, [epoch.metrics for epoch in one.epochs])
        for name, one in journals.read_all(Store(str(store))).items()
    }


def num_epochs(store: Path) -> int:
    return sum(len(epochs) for _, _, epochs in results(store).values())
