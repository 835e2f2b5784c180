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

from tests.support import lab

pytest.importorskip("ray")
pytest.importorskip("aiohttp_cors", reason="Ray's dashboard needs ray[default]")
pytestmark = [pytest.mark.timeout(500), pytest.mark.cluster, pytest.mark.faults]
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


def _examined(head: Head, folder: Path, token: str | None) -> tuple[int, str]:
    """The exit status of `ablate doctor`, and what it says of Ray."""
    done = subprocess.run(
        [sys.executable, "-m", "ablate", "doctor", "--cluster", head.gcs],
        cwd=folder,
        # Three tries instead of 20, a second each.
        env={**_environment(token), "RAY_NUM_REDIS_GET_RETRIES": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.split()[1:2] == ["ray"])
    return done.returncode, line


@pytest.mark.parametrize("token", [None, "0" * 64])
def test_doctor_without_the_right_token(head: Head, tmp_path: Path, token: str | None) -> None:
    status, said = _examined(head, tmp_path, token)
    assert status == 5 and said.startswith("FAIL") and "RAY_AUTH_TOKEN" in said


def test_doctor_with_the_token(head: Head, tmp_path: Path) -> None:
    status, said = _examined(head, tmp_path, TOKEN)
    assert said == "ok    ray        1 hosts with 2 CPUs and 2 GPUs for trials", said
    assert status == 0
