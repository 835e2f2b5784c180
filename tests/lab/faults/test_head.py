"""A real Ray head with a token, on this machine: who may connect, what doctor says, what is spent.

It is started by the options of the manifests. Two CPUs, two GPUs that are only numbers to Ray, and
a third GPU that Ray does not know of.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ablate.commands.doctor import cluster as doctor_cluster
from ablate.commands.doctor.finding import FAIL, OK, Finding
from ablate.store import journal as journals
from ablate.store.store import Store
from tests.support import lab

pytest.importorskip("ray")
pytest.importorskip("aiohttp_cors", reason="Ray's dashboard needs ray[default]")
pytestmark = [pytest.mark.timeout(500), pytest.mark.cluster]
TOKEN = secrets.token_hex(32)
NVIDIA_SMI = '#!/bin/sh\nfor gpu in 0 1 2; do echo "GPU $gpu: Imagined"; done\n'


@dataclass(frozen=True)
class Head:
    gcs: str
    dashboard: str
    agent: str
    metrics: str


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    from ray.util import get_node_ip_address

    gcs, web, agent, rpc, client, metrics = _free_ports(6)
    here = get_node_ip_address()
    with tempfile.TemporaryDirectory(prefix="abl-head-", dir="/tmp") as folder:
        imagined = Path(folder, "bin")
        imagined.mkdir()
        (imagined / "nvidia-smi").write_text(NVIDIA_SMI)
        (imagined / "nvidia-smi").chmod(0o755)
        words = ["ray", "start", "--head", f"--node-ip-address={here}", f"--port={gcs}"]
        words += ["--include-dashboard=true", "--dashboard-host=127.0.0.1"]
        words += [f"--dashboard-port={web}", f"--dashboard-agent-listen-port={agent}"]
        words += [f"--dashboard-agent-grpc-port={rpc}", f"--metrics-export-port={metrics}"]
        words += [f"--ray-client-server-port={client}", f"--temp-dir={folder}/ray"]
        words += ["--num-cpus=2", "--num-gpus=2", "--object-store-memory=80000000", "--block"]
        path = f"{imagined}:{lab.BIN}:{os.environ['PATH']}"
        log = Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                env={**_environment(TOKEN), "PATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
                executable=lab.BIN / "ray",
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        urls = (f"http://127.0.0.1:{web}", f"http://{here}:{agent}", f"http://{here}:{metrics}")
        started = Head(f"{here}:{gcs}", *urls)
        try:
            for url in (
                f"{started.dashboard}/api/version",
                f"{started.agent}/api/local_raylet_healthz",
            ):
                lab.wait_for(lambda url=url: _status(url, TOKEN) == 200, url, 120, log)
            yield started
        finally:
            ours = [process.pid, *lab.descendants(process.pid)]
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def _environment(token: str | None) -> dict[str, str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MLFLOW_", "ABLATE_"))}
    ours |= {"RAY_AUTH_MODE": "token", "OMP_NUM_THREADS": "1", "HOME": "/nonexistent"}
    ours["RAY_worker_niceness"] = "0"  # or a machine that others use would starve them
    return ours if token is None else {**ours, "RAY_AUTH_TOKEN": token}


def _status(url: str, token: str | None, body: object = None) -> int:
    """The status of the reply; 0: there is none."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20) as got:
            return got.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def test_dashboard_and_jobs_refuse_without_the_token(head: Head, tmp_path: Path) -> None:
    """The job that is refused would leave a file behind."""
    jobs, proof = f"{head.dashboard}/api/jobs/", tmp_path / "proof"
    order = {"entrypoint": f"touch {proof}"}
    for token, refusal in ((None, 401), (secrets.token_hex(32), 403), ("", 403)):
        for path in ("nodes?view=summary", "api/jobs/", "api/version", "api/cluster_status"):
            assert _status(f"{head.dashboard}/{path}", token) == refusal, path
        assert _status(jobs, token, order) == refusal
        assert _status(f"{head.agent}/api/job_agent/jobs/", token, order) == refusal
    assert _status(f"{head.dashboard}/nodes?view=summary", TOKEN) == 200
    assert not proof.exists()
    assert _status(jobs, TOKEN, order) == 200
    lab.wait_for(proof.exists, "the job submitted with the token", 120)


def test_metrics_ask_for_no_token(head: Head) -> None:
    """docs/security.md says so: only the network keeps others from them."""
    url = f"{head.metrics}/metrics"
    lab.wait_for(lambda: _status(url, None) == 200, "the metrics, without the token", 120)


# -- ablate doctor --cluster --


def _examined(head: Head, workspace, monkeypatch, token: str | None, mode: str | None = "token"):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nonexistent")
    monkeypatch.setenv("RAY_NUM_REDIS_GET_RETRIES", "3")  # instead of 20, a second each
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    if token is not None:
        monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    return list(doctor_cluster.cluster(head.gcs))


@pytest.mark.parametrize("mode", ["token", None])
def test_doctor_without_a_token(head, workspace, monkeypatch, mode) -> None:
    (finding,) = _examined(head, workspace, monkeypatch, None, mode)
    assert (finding.state, finding.exit_code) == (FAIL, 5)
    assert "token" in finding.found and "RAY_AUTH_TOKEN" in finding.remedy


def test_doctor_with_a_wrong_token(head, workspace, monkeypatch) -> None:
    (finding,) = _examined(head, workspace, monkeypatch, secrets.token_hex(32))
    assert (finding.state, finding.exit_code) == (FAIL, 5)
    assert "refuses the token" in finding.found and "RAY_AUTH_TOKEN" in finding.remedy


def test_doctor_with_the_token(head, workspace, monkeypatch) -> None:
    """The same versions, and one GPU more than Ray knows."""
    all_of_it, gpus = _examined(head, workspace, monkeypatch, TOKEN)
    assert all_of_it == Finding(OK, "1 hosts with 2 CPUs and 2 GPUs for trials")
    assert gpus.state == FAIL and " has 3 GPUs, and Ray sees 2" in gpus.found
    assert "--num-gpus" in gpus.remedy


# -- budgets --

STUDY = """
import costly

from ablate import Arm, Budget, Scale, Study, table

BASE = {
    "corpus.name": "grammar", "embedding.size": 4, "backbone": "lstm", "backbone.num_layers": 1,
    "backbone.units": 4, "head": "softmax", "optimizer": "sgd", "training.epochs": 3,
}
study = Study(
    question="?", base=BASE, base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 9.0})),
    scales={
        "hours": Scale(
            seeds=4, gpus=1, budget=Budget(gpu_hours=4 / 1024, gpu_hours_per_trial=1 / 1024)
        ),
    },
    runner="costly",
    techniques=("costly.py",),
)
"""
RUNNER = """
import time

from ablate.config.tasks import RUNNERS
from ablate.trial.stand_in import StandIn

class Costly(StandIn):
    # Reports 1/1024 GPU-hours in total, which is exact in binary.
    def advance(self, seconds):
        time.sleep(0.4)
        return {**super().advance(seconds), "seconds": self.epoch * 3600 / 1024 / self.epochs}

RUNNERS["costly"] = "costly:Costly"
"""


class Spender:
    """A study under a budget, whose driver is killed."""

    def __init__(self, head: Head, folder: Path, scale: str) -> None:
        self.head, self.folder, self.scale = head, folder, scale
        (folder / "spends.py").write_text(STUDY)
        (folder / "costly.py").write_text(RUNNER)
        self.store = Store(str(folder / "store"))

    def start(self) -> subprocess.Popen[str]:
        words = ["study", "spends.py", "--scale", self.scale, "--cluster", self.head.gcs]
        words += [
            "--workers",
            "2",
            "--workspace",
            "workspace",
            "--store",
            str(self.folder / "store"),
        ]
        environment = {
            **_environment(TOKEN),
            "PYTHONPATH": str(self.folder),
            "HOME": str(self.folder),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "ablate", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def known(self) -> dict[str, journals.Journal]:
        return journals.read_all(self.store)

    @property
    def done(self) -> int:
        return sum(journal.outcome is not None for journal in self.known.values())

    @property
    def epochs(self) -> int:
        return sum(len(journal.epochs) for journal in self.known.values())

    @property
    def ledger(self) -> dict[str, dict[str, float]]:
        return self.store.read_json(f"studies/spends@{self.scale}/ledger.json")

    def killed_at(self, epochs: int) -> None:
        """Run until this many epochs are in the store, then kill the driver without warning."""
        driver = self.start()
        try:
            lab.wait_for(lambda: self.epochs >= epochs or driver.poll() is not None, "epochs", 200)
            assert driver.poll() is None, driver.communicate()[0]
        finally:
            driver.kill()
            driver.communicate()

    def ended(self) -> str:
        driver = self.start()
        try:
            output = driver.communicate(timeout=200)[0]
        finally:
            driver.kill()
        assert driver.returncode == 0, output
        return output


@pytest.mark.faults
def test_gpu_hours_hold_through_restarts_of_the_driver(head: Head, tmp_path: Path) -> None:
    """A budget for exactly four of eight trials: each uses what is reserved for it."""
    spender = Spender(head, tmp_path, "hours")
    spender.killed_at(8)  # with trials that have ended, and trials that run
    ledger = spender.ledger
    assert ledger["reserved"] and ledger["spent"]
    assert sum((*ledger["reserved"].values(), *ledger["spent"].values())) <= 4 / 1024
    output = spender.ended()
    assert "GPU-hours is spent" in output
    assert spender.ledger["reserved"] == {} and sum(spender.ledger["spent"].values()) == 4 / 1024
    assert len(spender.known) == spender.done == 4
