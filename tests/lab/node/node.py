"""A real Kubernetes node on this machine, with `ablate`'s image and what an administrator gives."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
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
CONTENTS = ("ablate", "search_spaces", "studies", "README.md", "pyproject.toml", "setup.py")
CONTENTS += ("constraints.txt", "k8s/pack_image.py")  # what `k8s/image.sh` makes its image of
STORE = BASE / "volumes" / "store"  # of the pods, as this machine sees it
DATABASE = "docker.io/library/postgres:17-bookworm"  # by name; Debian's Postgres is in it
VOLUMES = ("store", "records", "ablate-artifacts", "ablate-postgres", "ablate-backups")
SETTING = (
    f"KUBECONFIG={BASE}/etc/kubeconfig",
    f"HOME={BASE}",
    f"PATH={BASE}/bin:{os.environ['PATH']}",
)
CURL = ("curl", "-s", "-o", "/dev/null", "-m", "5", "-w", "%{http_code}")
STORE_MIB = 512
PLAIN = ROOT / "k8s" / "overlays" / "plain"
GATEWAY = "10.123.0.1"  # the node, for its pods
MIB = 2**20
# Each program, or file, and the package of Debian 12 that has it.
NEEDED = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "dnsmasq": "dnsmasq-base",
    "debootstrap": "debootstrap",
    "dpkg-source": "dpkg-dev",
    "gcc": "gcc",
    "ip": "iproute2",
    "openssl": "openssl",
    "pkill": "procps",
    "mkfs.ext4": "e2fsprogs",
    "chromium": "chromium",
    "curl": "curl",
}
NO_KUBECTL = (
    "kubectl is not installed: take one of Kubernetes' own (Debian 12's is too old for k8s/)"
)
NO_GROUPS = "this machine has no cgroups of version 1 in /sys/fs/cgroup/memory"


def run(*words: str | Path, stdin: str = "") -> str:
    done = subprocess.run([*map(str, words)], input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def wait_for(condition: Callable[[], object], what: str, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s: not {what}"
        time.sleep(0.5)


def missing() -> list[str]:
    """What this machine lacks, each with how to get it."""
    lacking = {package for program, package in NEEDED.items() if shutil.which(program) is None}
    install = f"apt-get install --no-install-recommends {' '.join(sorted(lacking))}"
    told = {
        f"not all is installed: {install}": lacking,
        NO_KUBECTL: shutil.which("kubectl") is None,
        NO_GROUPS: not Path("/sys/fs/cgroup/memory/memory.usage_in_bytes").exists(),
        "this needs root": os.geteuid() != 0,
    }
    return [message for message, is_so in told.items() if is_so]


def packed(script: Path, archive: Path, name: str, *contents: str) -> Path:
    """The image as a file, made by its script unless it is there and of this code."""
    files = run("git", "-C", ROOT, "ls-files", "-z", "--", script, *contents).split("\0")[:-1]
    digest, made_of = hashlib.sha256(), archive.with_suffix(".digest")
    for file in files:
        digest.update(file.encode() + (ROOT / file).read_bytes())
    if not archive.exists() or not made_of.exists() or made_of.read_text() != digest.hexdigest():
        run("sh", script, name, archive)
        made_of.write_text(digest.hexdigest())
    return archive


class Node:
    """The node, and `kubectl` for it."""

    def __enter__(self) -> Node:
        folder, reason = servers.programs()
        assert folder is not None, reason
        own = packed(ROOT / "k8s" / "image.sh", CACHE / "image.tar", IMAGE, *CONTENTS)
        database = packed(FOLDER / "postgres.sh", CACHE / "postgres.tar", DATABASE)
        volumes = [volume(name) for name in VOLUMES]
        try:
            run("sh", FOLDER / "node.sh", "up", folder)
            self._prepare(folder, own, database)
            self.apply({"apiVersion": "v1", "kind": "List", "items": volumes})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        run("sh", FOLDER / "node.sh", "down")
        run("umount", STORE)
        shutil.rmtree(BASE / "volumes")

    def _prepare(self, programs: Path, *images: Path) -> None:
        pause = BASE / "pause"
        pause.mkdir(exist_ok=True)
        (pause / "pause").write_bytes((programs / "pause").read_bytes())
        (pause / "pause").chmod(0o755)
        pack = ROOT / "k8s" / "pack_image.py"
        run("python3", pack, PAUSE, pause, BASE / "pause.tar", "/pause")
        containers = ("ctr", "-a", f"{BASE}/run/containerd.sock", "-n", "k8s.io")
        for archive in (BASE / "pause.tar", *images):
            self.run(*containers, "images", "import", archive)
        (BASE / "bin").mkdir(exist_ok=True)
        older = BASE / "bin" / "kubectl"
        older.write_text(servers.KUBECTL.format(kubectl=shutil.which("kubectl")))
        older.chmod(0o755)
        self.kubectl("create", "namespace", "ablate")
        self.kubectl("config", "set-context", "--current", "--namespace=ablate")

    def answer_names(self) -> None:
        """Answer the names of Services inside the node: Debian 12 has dnsmasq, and no CoreDNS."""
        services = self.get("services")["items"]
        places = [(each["metadata"]["name"], each["spec"]["clusterIP"]) for each in services]
        answers = [f"--address=/{name}.ablate.svc.cluster.local/{at}" for name, at in places]
        where = (f"--listen-address={GATEWAY}", "--bind-interfaces", "--pid-file=")
        self.run("sh", "-c", "pkill -x dnsmasq && sleep 1 || true")
        self.run("dnsmasq", "--user=root", "--no-resolv", "--no-hosts", *where, *answers)

    def evict_below(self, memory: str) -> None:
        """Start the kubelet again, which evicts pods while less memory is available."""
        file = BASE / "etc" / "kubelet.yaml"
        text = re.sub(r"memory.available: \w+", f"memory.available: {memory}", file.read_text())
        file.write_text(text)
        self.run("pkill", "-x", "kubelet")

    def run(self, *words: str | Path, stdin: str = "") -> str:
        return run("sh", FOLDER / "node.sh", "in", *words, stdin=stdin)

    def kubectl(self, *words: str | Path, stdin: str = "") -> str:
        return self.run("env", *SETTING, "kubectl", *words, stdin=stdin)

    def get(self, *words: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def shell(self, command: str) -> str:
        """Run a command of the README, as it is printed there."""
        return self.run("env", *SETTING, "sh", "-ec", f"cd {ROOT}; {command}")

    @contextlib.contextmanager
    def during(self, command: str) -> Iterator[None]:
        """Run a command that has no end, until the block's."""
        words = ["sh", FOLDER / "node.sh", "in", "env", *SETTING, "sh", "-ec", f"exec {command}"]
        with subprocess.Popen([*map(str, words)], start_new_session=True) as running:
            try:
                yield
            finally:
                os.killpg(running.pid, signal.SIGTERM)

    def answer(self, url: str, *more: str) -> str:
        """The status of an answer to a request from the node; 000 without one."""
        words = ["sh", FOLDER / "node.sh", "in", *CURL, *more, url]
        return subprocess.run([*map(str, words)], capture_output=True, text=True).stdout

    def apply(self, item: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(item))

    def start(self, study: Path, *words: str) -> None:
        """Apply an overlay's Job with these arguments."""
        job = yaml.safe_load(self.kubectl("kustomize", study))
        job["spec"]["template"]["spec"]["containers"][0]["args"] = list(words)
        self.apply(job)

    def done(self) -> bool:
        status = self.get("job", "study")["status"]
        failed = [each["type"] for each in status.get("conditions", ()) if each["type"] == "Failed"]
        assert not failed, self.kubectl("logs", "job/study", "--tail=50")
        return bool(status.get("succeeded"))


def volume(name: str) -> dict[str, Any]:
    """What an administrator, or a storage class, would give: empty."""
    folder = BASE / "volumes" / name
    if os.path.ismount(folder):
        run("umount", folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if folder == STORE:
        small_disk(folder)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["ablate-node"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "50Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "ablate", "name": name},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def small_disk(folder: Path) -> None:
    """Mount a file system of its own, which can be filled."""
    image = folder.with_suffix(".ext4")
    with image.open("wb") as file:
        file.truncate(STORE_MIB * MIB)
    run("mkfs.ext4", "-q", "-m", "0", image)
    run("mount", "-o", "loop", image, folder)
    (folder / "lost+found").rmdir()


@contextlib.contextmanager
def fill(folder: Path) -> Iterator[Callable[[], None]]:
    """Leave no room in a file system for the time of the block, in which more can be taken."""
    ballast = folder / ".ballast"

    def take() -> None:
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    take()
    try:
        yield take
    finally:
        ballast.unlink()


def results(store: Path) -> dict[str, Any]:
    """What each trial found, to the bit."""
    return {
        name: (one.status, one.metrics, [epoch.metrics for epoch in one.epochs])
        for name, one in journals.read_all(Store(str(store))).items()
    }


def num_epochs(store: Path) -> int:
    return sum(len(epochs) for _, _, epochs in results(store).values())


def num_attempts(store: Path) -> dict[str, int]:
    """How often each completed trial was begun."""
    found = journals.read_all(Store(str(store))).items()
    return {name: len(one.attempts) for name, one in found if one.status == "completed"}
