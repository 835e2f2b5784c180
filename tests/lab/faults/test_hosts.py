"""A study over two hosts meets one fault after another, and ends as if there had been none.

Real Ray over a network under the manifests' settings, MLflow with logins on Postgres, searches on
Postgres, the store in S3. Trials train nothing, so what each must find is known beforehand.
"""

from __future__ import annotations

import calendar
import os
import re
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from ablate.store import journal as journals
from ablate.store import study_record
from tests.support import lab

pytestmark = pytest.mark.timeout(900)
NUMBERS = {"listed": 0}


class Case:
    """A separate study, and what its store has."""

    def __init__(self, hosts: Any, name: str, number: int) -> None:
        self.hosts, self.name, self.number = hosts, name, number
        self.store = hosts.store(name)
        self.file, self.scale = "listed.py", "short"

    def start(self, **env: str) -> lab.Driver:
        variables = {"FAULTS_NUMBER": str(self.number), **env}
        return self.hosts.study(self.name, self.scale, self.file, env=variables)

    @property
    def key(self) -> str:
        return f"{self.file.removesuffix('.py')}@{self.scale}"

    @property
    def known(self) -> dict[str, journals.Journal]:
        return journals.read_all(self.store)

    def progress(self) -> int:
        return sum(len(journal.epochs) for journal in self.known.values())

    def running_on(self, pod: str) -> list[str]:
        """The trials that run in the pod, with some epochs done."""
        running = [j for j in self.known.values() if j.outcome is None and j.epochs]
        return [j.trial.id for j in running if j.attempts[-1].host == f"pod-{pod}"]

    def until(self, condition: Any, driver: lab.Driver, what: str, seconds: float = 240) -> Any:
        def check() -> Any:
            assert driver.process.poll() is None, f"it ended before: {what}\n{driver.said[-3000:]}"
            return condition()

        try:
            return lab.wait_for(check, what, seconds)
        except AssertionError as error:
            pods = [f"pod {pod.name}: {pod.process.poll()}" for pod in self.hosts.pods.values()]
            raise AssertionError(f"{error}\n{pods}\n{driver.said[-3000:]}") from error

    def attempts(self, names: list[str]) -> int:
        return sum(len(j.attempts) for name, j in self.known.items() if name in names)

    def next_epoch(self, names: list[str], driver: lab.Driver) -> float:
        """Seconds until one of these trials has been restarted and has trained another epoch."""
        start, before = time.monotonic(), self.attempts(names)

        def again() -> bool:
            known = [j for name, j in self.known.items() if name in names]
            restarted = sum(len(j.attempts) for j in known) > before
            return restarted and any(
                len(j.epochs) > j.attempts[-1].from_epoch for j in known if len(j.attempts) > 1
            )

        self.until(again, driver, f"{names} go on")
        return time.monotonic() - start

    def repeated(self) -> str:
        """The number of epochs that were trained twice."""
        number = sum(
            attempt.epochs_before - attempt.from_epoch
            for journal in self.known.values()
            for attempt in journal.attempts
        )
        return f"{number or 'no'} epoch{'' if number == 1 else 's'}"

    def check(self, driver: lab.Driver) -> None:
        """It ended well; every trial has the right result and one run, and none is running."""
        assert driver.ended(420) == 0, driver.said[-4000:]
        output = driver.said
        for _ in range(4):  # on a slow machine the server takes too long: query it again
            if "not recorded yet" not in output:
                break
            late = self.hosts.ablate(self.name, "sync", env={"FAULTS_NUMBER": str(self.number)})
            output = "" if late.ended() == 0 else f"not recorded yet: {late.said}"
        assert "not recorded yet" not in output, output[-3000:]
        record, known = study_record.read(self.store, self.key), self.known
        assert set(known) == set(record.trial_ids())
        for journal in known.values():
            _check_found(journal)
        self._check_runs(record, known)
        for pod in ("a", "b"):
            there = self.hosts.pods.get(pod)
            assert there is None or not (there.tmp / "driver").exists()

    def _check_runs(self, record: Any, known: dict[str, journals.Journal]) -> None:
        import psycopg

        url = self.hosts.database("mlflow").replace("+psycopg", "")
        query = "select value, status from tags join runs using (run_uuid) where key = %s"
        with psycopg.connect(url) as database:
            runs = Counter(database.execute(query, ("ablate.trial",)).fetchall())
        ours = {place: number for place, number in runs.items() if place[0] in known}
        statuses = {"completed": "FINISHED", "pruned": "KILLED"}
        assert ours == {(name, statuses[str(known[name].status)]): 1 for name in known}


def _check_found(journal: journals.Journal) -> None:
    from tests.lab.faults.studies import hostly

    task = hostly.Sloping(journal.trial, None)  # type: ignore[arg-type]
    losses = [task._nll(epoch + 1) for epoch in range(len(journal.epochs))]
    assert [epoch.metrics["valid_nll"] for epoch in journal.epochs] == losses
    assert journal.status in ("completed", "pruned"), journal
    if journal.status == "completed":
        assert journal.outcome and journal.outcome.metrics["valid_nll"] == losses[-1]
        assert len(losses) == task.epochs


@pytest.fixture
def case(hosts, request):
    """A study only for this test."""
    NUMBERS["listed"] += 1
    name = re.sub(r"\W", "_", request.node.name.removeprefix("test_"))  # part of a URI
    return Case(hosts, name[:40], NUMBERS["listed"])


@pytest.fixture
def cluster(hosts):
    """Head and both workers, in good order."""
    gone = any(pod.process.poll() is not None for pod in hosts.pods.values())
    if gone or set(hosts.pods) != {"head", "a", "b"}:
        hosts.cluster("a", "b")
    return hosts


def on(case: Case, pod: str, driver: lab.Driver) -> list[str]:
    """Trials that run in a pod, with some epochs done."""
    return case.until(lambda: case.running_on(pod), driver, f"a trial runs in pod {pod}")


def test_worker_process_killed(cluster, case, report) -> None:
    driver = case.start()
    names = on(case, "b", driver)
    for pid in cluster.workers_of("b"):
        os.kill(pid, signal.SIGKILL)
    seconds = case.next_epoch(names, driver)
    case.check(driver)
    report("a host's worker processes killed", case.repeated(), seconds)


def test_worker_host_killed_and_replaced(cluster, case, report) -> None:
    driver = case.start()
    names = on(case, "b", driver)
    cluster.stop_pod("b")
    start = time.monotonic()
    cluster.start_worker("b")
    seconds = case.next_epoch(names, driver)
    case.check(driver)
    assert time.monotonic() > start
    report("a worker host killed, and replaced", case.repeated(), seconds)


def test_driver_killed_and_started_again(cluster, case, report) -> None:
    driver = case.start()
    names = on(case, "a", driver)
    driver.kill()
    assert not [j for j in case.known.values() if j.status == "failed"]
    driver = case.start()
    seconds = case.next_epoch(names, driver)
    case.check(driver)
    report("the driver killed, and started again", case.repeated(), seconds)


def test_mlflow_stopped_for_a_minute(cluster, case, report) -> None:
    case.scale = "middle"
    driver = case.start()
    on(case, "a", driver)
    cluster.stop("mlflow")
    before, start = case.progress(), time.monotonic()
    case.until(lambda: case.progress() > before, driver, "trials continue without records")
    seconds = time.monotonic() - start
    time.sleep(max(0.0, 60 - seconds))
    cluster.start_mlflow()
    case.check(driver)
    report("MLflow stopped for a minute", case.repeated(), seconds)


def test_mlflow_stalls_for_a_minute(cluster, case, report) -> None:
    case.scale = "middle"
    driver = case.start()
    on(case, "a", driver)
    group = cluster.services["mlflow"].pid
    os.killpg(group, signal.SIGSTOP)
    before, start = case.progress(), time.monotonic()
    case.until(lambda: case.progress() > before, driver, "trials continue without records")
    seconds = time.monotonic() - start
    time.sleep(max(0.0, 60 - seconds))
    os.killpg(group, signal.SIGCONT)
    case.check(driver)
    report("MLflow stalls for a minute", case.repeated(), seconds)


def test_mlflow_answers_500_for_a_minute(cluster, case, report) -> None:
    case.scale = "middle"
    driver = case.start()
    on(case, "a", driver)
    cluster.stop("mlflow")
    cluster.start_refusing()
    before, start = case.progress(), time.monotonic()
    case.until(lambda: case.progress() > before, driver, "trials continue without records")
    seconds = time.monotonic() - start
    time.sleep(max(0.0, 60 - seconds))
    log = (cluster.base / "refusing.log").read_text()
    cluster.stop("refusing")
    cluster.start_mlflow()
    assert '" 500 ' in log, "nobody asked it"
    case.check(driver)
    report("MLflow answers 500 for a minute", case.repeated(), seconds)


def test_postgres_restarted_and_out_of_connections(cluster, case, report) -> None:
    import psycopg

    case.file, case.scale = "searched.py", "s"
    driver = case.start()
    case.until(lambda: case.progress() > 3, driver, "the search has started")
    cluster.pg("restart", "-m", "immediate", "-w")
    start, before = time.monotonic(), len(case.known)
    case.until(lambda: len(case.known) > before, driver, "the search asks again")
    seconds = time.monotonic() - start
    url = cluster.database("postgres").replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as killer:
        greedy = []
        killer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'searches'"
        )
        while True:
            try:
                greedy.append(psycopg.connect(url))
            except psycopg.OperationalError:
                break
        time.sleep(10)
        for connection in greedy:
            connection.close()
    case.check(driver)
    trials = _search_trials(cluster, case)
    assert all(trial.state.is_finished() for trial in trials)
    report("Postgres restarted, then without connections", case.repeated(), seconds)


def _search_trials(cluster: Any, case: Case) -> list[Any]:
    import optuna

    from ablate.tune.search.arm import open_storage

    storage = open_storage(cluster.database("searches"), case.key)
    names = [each.study_name for each in optuna.get_all_study_summaries(storage)]
    studies = [optuna.load_study(study_name=name, storage=storage) for name in names]
    found = [trial for study in studies for trial in study.get_trials()]
    storage.engine.dispose()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("cut", [5, 120])
def test_cable_cut(cluster, case, report, cut: int) -> None:
    if cut > 60:
        case.scale = "middle"
    driver = case.start()
    names = on(case, "b", driver)
    before, start = {n: len(case.known[n].epochs) for n in names}, time.monotonic()
    lab.netlab("cut", "nodeB")
    try:
        if cut > 60:
            seconds = case.next_epoch(names, driver)
        time.sleep(max(0.0, cut - (time.monotonic() - start)))
    finally:
        lab.netlab("mend", "nodeB")
    if cut < 60:
        case.until(
            lambda: any(len(case.known[n].epochs) > before[n] for n in names), driver, "it goes on"
        )
        seconds = time.monotonic() - start
    case.check(driver)
    report(f"a worker's cable cut for {cut} s", case.repeated(), seconds)
    cluster.stop_pod("b")  # Ray ends a host that it has given up on; this is a fresh one
    cluster.start_worker("b")


def test_spot_worker_asked_to_end(cluster, case, report) -> None:
    case.scale = "middle"  # trials longer than the half minute for which Ray drains a host
    driver = case.start()
    names = on(case, "b", driver)
    pod = cluster.pods["b"]
    ray_start = lab.children(pod.process.pid)[0]
    os.kill(ray_start, signal.SIGTERM)
    start = time.monotonic()
    seconds = case.next_epoch(names, driver)
    while pod.process.poll() is None and time.monotonic() - start < 30:
        time.sleep(0.5)
    cluster.stop_pod("b")
    cluster.start_worker("b")
    case.check(driver)
    report("a spot worker told to end (SIGTERM, 30 s)", case.repeated(), seconds)


def test_worker_disk_full(cluster, case, report) -> None:
    pod = cluster.pods["b"]
    script = "mkdir -p /tmp/host && mount -t tmpfs -o size=64k tmpfs /tmp/host && head -c 70k "
    script += "/dev/zero > /tmp/host/full; true"
    subprocess.run(pod.command("bash", "-c", script), check=True, capture_output=True)
    driver = case.start()
    start = time.monotonic()
    on(case, "b", driver)
    seconds = time.monotonic() - start
    case.check(driver)
    used = subprocess.run(
        pod.command("bash", "-c", "ls -d /tmp/ablate-*/data/from_driver/*/encoded/*"),
        capture_output=True,
    )
    assert used.returncode == 0, used.stderr
    report("a worker's disk full", f"{case.repeated()}, start included", seconds)
    cluster.stop_pod("b")
    cluster.start_worker("b")


def test_second_driver_leaves(cluster, case, report) -> None:
    driver = case.start()
    on(case, "a", driver)
    start = time.monotonic()
    env = {"FAULTS_NUMBER": str(case.number), "ABLATE_WORKSPACE": "/tmp/driver/elsewhere"}
    second = cluster.study(case.name, case.scale, env=env)
    assert second.ended() == 4, second.said
    seconds = time.monotonic() - start
    assert "is already being run by process" in second.said
    case.check(driver)
    report("a second driver started by mistake (it leaves)", case.repeated(), seconds)


@pytest.mark.parametrize("hours", [1, -1])
def test_clock_an_hour_off(cluster, case, report, hours: int) -> None:
    case.scale = "middle"  # its workers may be late
    cluster.stop_pod("b")
    clock = {"FAULTS_CLOCK": str(hours * 3600), "PYTHONPATH": str(lab.HERE / "clock")}
    cluster.start_worker("b", clock)
    start = time.monotonic()
    driver = case.start()
    (name, *_) = on(case, "b", driver)
    seconds = time.monotonic() - start
    started = case.known[name].attempts[-1].started
    off = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) - time.time()
    assert 3600 * hours - 600 < off < 3600 * hours + 60, started
    case.check(driver)
    way = "ahead" if hours > 0 else "behind"
    report(f"a worker's clock an hour {way}", f"{case.repeated()}, start included", seconds)
    cluster.stop_pod("b")
    cluster.start_worker("b")


def test_head_killed(cluster, case, report) -> None:
    """The driver goes with it. The next attempt, as KubeRay's, has a new cluster and the store."""
    driver = case.start()
    names = on(case, "a", driver)
    cluster.stop_pod("head")
    driver.process.wait(30)
    start = time.monotonic()
    cluster.cluster("a", "b")
    driver = case.start()
    case.next_epoch(names, driver)
    seconds = time.monotonic() - start
    case.check(driver)
    report("the head killed, and the driver on it; a new cluster", case.repeated(), seconds)
