"""`make test-node`: k8s/overlays/plain on a real node, whose pods are then killed.

A kubelet, containerd and runc run the pods of the overlay with an image of `k8s/image.sh`. However
a study is disturbed, it ends with the results of a local run, bit for bit. It needs root, and an
hour where nothing is in the cache; minutes after that.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lab.node.node import (
    BASE,
    PLAIN,
    STORE,
    Node,
    fill,
    missing,
    num_attempts,
    num_epochs,
    results,
    wait_for,
)
from tests.support.places import ROOT

pytestmark = pytest.mark.timeout(4 * 3600)
README = (ROOT / "k8s" / "README.md").read_text()
LAPTOP = ("studies/digits_cnn.py", "--workers", "2")
MOST_RUNS = 10
FULL = r"^ablate: cannot write .* in the store /store: No space left.*"
LOOK = Path(__file__).with_name("look.py")
SUMMARY = "/api/v1/nodes/ablate-node/proxy/stats/summary"
FORWARD, HEALTH = "kubectl port-forward svc/mlflow 5000", "http://localhost:5000/health"
SEARCH = "http://localhost:5000/api/2.0/mlflow/experiments/search?max_results=5"
NAMES = """
SELECT runs.name, runs.status, count(*) FROM runs JOIN experiments USING (experiment_id)
WHERE experiments.name LIKE 'digits_cnn%' GROUP BY runs.name, runs.status
"""


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    assert not missing(), "; ".join(missing())
    with Node() as running:
        yield running


def follow(node: Node, title: str) -> None:
    """Run a section's commands as they are on the page, except those for the image."""
    [section] = re.findall(rf"^## {title}\n(.*?)^## ", README, re.M | re.S)
    for command in "".join(re.findall(r"```sh\n(.*?)```", section, re.S)).splitlines():
        print(command)
        if "port-forward" in command:
            with node.during(command):
                wait_for(lambda: node.answer(HEALTH) == "200", "forwarded", 60)
        elif "image" not in command:
            node.shell(command)
        if "apply" in command:
            node.answer_names()


@pytest.fixture(scope="session")
def applied(node: Node) -> Node:
    follow(node, "In eight commands")
    return node


@pytest.fixture(scope="session")
def with_logins(applied: Node) -> Node:
    applied.kubectl("delete", "job", "study", "--ignore-not-found", "--wait")
    applied.kubectl("delete", "-k", PLAIN / "records")
    follow(applied, "With logins, on Postgres")
    wait_for(applied.done, "the end of the first study")
    return applied


def locally(folder: Path, *words: str) -> dict[str, Any]:
    """The results of a study on this machine, without Ray."""
    command = [sys.executable, "-m", "ablate", "study", *words, "--local", "--workspace", folder]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return results(folder / "store")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the study that nothing disturbs."""
    return tmp_path_factory.mktemp("laptop")


@pytest.fixture(scope="session")
def undisturbed(workspace: Path) -> dict[str, Any]:
    return locally(workspace, LAPTOP[0])


def force(node: Node, pod: str) -> None:
    node.kubectl("delete", "pod", pod, "--force", "--grace-period=0")


def drivers(node: Node, *phase: str) -> list[str]:
    return node.kubectl("get", "pods", "-l", "job-name=study", "-o", "name", *phase).split()


def drain(node: Node) -> None:
    """Ask every pod to leave, as for a new kernel; and take the node back."""
    node.kubectl("drain", "ablate-node", "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    node.kubectl("uncordon", "ablate-node")


def evicted(node: Node) -> set[str]:
    events = node.get("events", "--field-selector=reason=Evicted")["items"]
    return {event["involvedObject"]["name"].partition("-")[0] for event in events}


def evict(node: Node) -> None:
    """Ask the kubelet for more memory than all pods have, until it has evicted one of Ray's.

    MLflow's pod is scaled away meanwhile: it would be the first, and the study end before the next.
    """
    node.kubectl("scale", "statefulset/mlflow", "--replicas=0")
    summary = json.loads(node.kubectl("get", "--raw", SUMMARY))["node"]["memory"]
    node.evict_below(f"{summary['availableBytes'] // 2**20 + 4096}Mi")
    try:
        wait_for(lambda: evicted(node) & {"worker", "head", "study"}, "evicted")
    finally:
        node.evict_below("100Mi")
        node.kubectl("scale", "statefulset/mlflow", "--replicas=1")
    print("evicted:", *sorted(evicted(node)))


DISTURBED = {
    "nothing": lambda node: None,
    "a worker": lambda node: force(node, "worker-0"),
    "the head": lambda node: force(node, "head-0"),
    "the driver": lambda node: force(node, drivers(node)[0].removeprefix("pod/")),
    "mlflow": lambda node: force(node, "mlflow-0"),
    "the node drained": drain,
    "evicted by memory": evict,
}


def begun(node: Node, what: str, study: Path = PLAIN / "study", *more: str) -> None:
    """Start the study in an empty store, and wait until trials have learnt something."""
    node.kubectl("delete", "job", "study", "--ignore-not-found", "--wait")
    for part in STORE.iterdir():
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    start = time.monotonic()
    node.start(study, *LAPTOP, *more)
    wait_for(lambda: num_epochs(STORE) >= 8, "eight epochs")
    print(f"{what}: after {time.monotonic() - start:.0f} s and {num_epochs(STORE)} epochs")


def ended(node: Node, what: str) -> dict[str, Any]:
    """Wait for the study's end; its results."""
    start = time.monotonic()
    wait_for(node.done, "the end of the study")
    print(f"{what}: done {time.monotonic() - start:.0f} s later, {len(drivers(node))} drivers")
    return results(STORE)


def test_the_first_study_is_that_of_a_local_run(applied: Node, tmp_path: Path) -> None:
    found = results(STORE)
    assert found == locally(tmp_path, "studies/doc_layer_mix.py", "--scale", "smoke")


@pytest.mark.parametrize("what", DISTURBED)
def test_the_results_are_those_of_a_local_run(
    applied: Node, undisturbed: dict[str, Any], what: str
) -> None:
    begun(applied, what)
    DISTURBED[what](applied)
    assert ended(applied, what) == undisturbed


def test_a_full_claim_ends_the_driver_and_loses_nothing(
    applied: Node, undisturbed: dict[str, Any]
) -> None:
    begun(applied, "a full claim")
    said: list[str] = []
    with fill(STORE) as refill:

        def is_over() -> bool:
            refill()
            ended = drivers(applied, "--field-selector=status.phase=Failed")
            logs = [applied.kubectl("logs", pod) for pod in ended]  # Ray may have been late, too
            said[:] = re.findall(FULL, "\n".join(logs), re.M)
            return bool(said)

        wait_for(is_over, "a driver that has ended for want of room")
        before = num_attempts(STORE)
    print(said[-1])
    assert ended(applied, "a full claim") == undisturbed
    assert {
        name: number for name, number in num_attempts(STORE).items() if name in before
    } == before


def test_the_page_shows_the_study_while_it_runs(applied: Node) -> None:
    """By the page's own command; Chromium runs where the port is, on the node."""
    begun(applied, "the page", PLAIN / "study", "--ui")
    address = re.search(r"http://127\.0\.0\.1:5050/\S+", applied.kubectl("logs", "job/study"))
    [command] = re.findall(r"`(kubectl port-forward job/study \d+)`", README)
    assert address
    with applied.during(command):
        shown = applied.run(sys.executable, LOOK, address[0]).splitlines()
    print(*shown, sep="\n")
    counts = [int(number) for number in re.findall(r"^(\d+) completed$", "\n".join(shown), re.M)]
    assert len(counts) > 2 and counts == sorted(counts)
    assert shown[-1] == "Ended"


def rows_in_postgres(node: Node) -> list[tuple[str, str, int]]:
    ask = f'PGPASSWORD=$POSTGRES_PASSWORD psql -U postgres -At -c "{NAMES}" mlflow'
    lines = node.kubectl("exec", "postgres-0", "--", "sh", "-c", ask).splitlines()
    return sorted((name, status, int(n)) for name, status, n in (x.split("|") for x in lines))


def test_logins_and_postgres_whose_pod_is_killed(
    with_logins: Node, workspace: Path, undisturbed: dict[str, Any]
) -> None:
    begun(with_logins, "postgres", PLAIN / "logins" / "study")
    force(with_logins, "postgres-0")
    assert ended(with_logins, "postgres") == undisturbed
    # What was not recorded while Postgres was away: a run again delivers what it can in a minute.
    for _ in range(MOST_RUNS):
        said = re.findall(r"not recorded yet.*", with_logins.kubectl("logs", "job/study"))
        if not said:
            break
        print(said[-1])
        with_logins.kubectl("delete", "job", "study", "--wait")
        with_logins.start(PLAIN / "logins" / "study", *LAPTOP)
        assert ended(with_logins, "postgres, again") == undisturbed
    with closing(sqlite3.connect(workspace / "mlflow.db")) as database:
        expected = sorted(database.execute(NAMES).fetchall())
    assert rows_in_postgres(with_logins) == expected


def test_nobody_reads_the_records_without_a_login(with_logins: Node) -> None:
    secret = with_logins.get("secret", "ablate-reader")["data"]
    reader = ":".join(b64decode(secret[name]).decode() for name in ("username", "password"))
    with with_logins.during(FORWARD):
        wait_for(lambda: with_logins.answer(HEALTH) == "200", "forwarded", 60)
        assert with_logins.answer(SEARCH) == "401"
        assert with_logins.answer(SEARCH, "--user", reader) == "200"


def test_a_backup_started_by_hand_has_the_records(with_logins: Node) -> None:
    """After the study, of which the dump has the trials."""
    spec = with_logins.get("cronjob", "backup")["spec"]["jobTemplate"]["spec"]
    # Not by `kubectl create job --from=cronjob/backup`: it does not know the kind of 1.20.
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "by-hand"}}
    with_logins.apply({**head, "spec": spec})
    with_logins.kubectl("wait", "--for=condition=Complete", "job/by-hand", "--timeout=10m")
    [dump] = (BASE / "volumes" / "ablate-backups").glob("*.sql.gz")
    text = gzip.decompress(dump.read_bytes()).decode()
    assert "CREATE ROLE searches" in text and "dump complete" in text
    assert "shifted seed 5" in text
