"""The other processes of a trial, as the worker's process sees them: started, told, ended.

They stay for the worker's next trial, as starting one takes seconds. They are told over pipes, so
that they end with the worker, whatever ends it; only gradients go through `torch.distributed`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import IO, Any

import torch
from torch import Tensor, cuda, distributed

from ablate.errors import TrialError
from ablate.trial.task import ProcessLost
from ablate.trial.training.messages import Message, receive, send

SECONDS = 600.0  # that a process waits for what the others say, and for their gradients
END_SECONDS = 5.0  # that a process has to end by itself
INTERFACES = {"cpu": "GLOO_SOCKET_IFNAME", "cuda": "NCCL_SOCKET_IFNAME"}
WATCH_SECONDS = 1.0  # between two looks at the other processes
_LEAVING = Lock()
Answers = SimpleQueue[Message | None]  # of a process; None: it has ended
# The driver may have changed where modules are found, so a new process does not know it.
CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ablate.trial.training.follower import main
main()
"""


class Team:
    """Processes 1, 2, ... of `size`; this one is 0."""

    started: Team | None = None

    @classmethod
    def of(cls, device: str, size: int) -> Team:
        """Return the processes that are there, or new ones."""
        if cls.started is None or not cls.started.fits(device, size):
            if cls.started is not None:
                cls.started.end()
            cls.started = cls(device, size)
        return cls.started

    def __init__(self, device: str, size: int) -> None:
        if distributed.is_initialized():
            raise TrialError(
                "this process is part of a process group of torch.distributed already, and a trial "
                f"with {size} processes needs one of its own. Instead: processes=1 in the scale, "
                "or a worker's process (without --local)."
            )
        self.device, self.size = device, size
        command = [sys.executable, "-c", CODE, json.dumps(sys.path)]
        self.processes = [_started(command) for _ in range(1, size)]
        self._answers = [_listening(process) for process in self.processes]
        self._ended = Event()
        self._watcher = Thread(target=self._watch, daemon=True)
        # nccl may look up the others in it at any time, gloo at the start alone.
        self._folder = tempfile.TemporaryDirectory(prefix="ablate-rows-")
        atexit.register(self.end)
        try:
            self._meet(self._folder.name)
        except BaseException:
            self.end()
            raise
        if device == "cuda":
            self._watcher.start()

    def _meet(self, folder: str) -> None:
        for rank in range(1, self.size):
            place = {"device": self.device, "size": self.size, "folder": folder}
            self._send(rank, {"rank": rank, **place}, {})
        self.heard()  # they are there: only now may this process wait for them
        join(0, self.size, self.device, folder)
        self.heard()

    def _watch(self) -> None:
        """Leave the process group when a process has died: gloo notices, but nccl would have the
        GPU wait for its gradients."""
        while self._alive():
            if self._ended.wait(WATCH_SECONDS):
                return
        leave(self.device)

    def _alive(self) -> bool:
        return all(process.poll() is None for process in self.processes)

    def fits(self, device: str, size: int) -> bool:
        """Return whether these are as many processes as are needed, and alive."""
        return (
            self._alive()
            and not self._ended.is_set()
            and (self.device, self.size) == (device, size)
        )

    def check(self) -> None:
        """Raise an error if one of them has died: sums may then lack its rows."""
        if not self._alive():
            raise self.lost()

    def tell(self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Tell all of them."""
        for rank in range(1, self.size):
            self._send(rank, plain, tensors)

    def _send(self, rank: int, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        try:
            send(self.processes[rank - 1].stdin, plain, tensors)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:  # a closed pipe
            raise self.lost() from error

    def heard(self) -> list[Message]:
        """Wait for an answer of each."""
        until = time.monotonic() + SECONDS
        answers = [_answer(each, until) for each in self._answers]
        if any(answer is None or "error" in answer.plain for answer in answers):
            raise self.lost(answers)
        return [answer for answer in answers if answer is not None]

    def lost(self, heard: Sequence[Message | None] = ()) -> ProcessLost:
        """End all of them; return the error that names those that had ended by themselves, or else
        those that did not answer. `heard`: what each said, if they were asked."""
        until = time.monotonic() + END_SECONDS
        ended, silent = list[str](), list[str]()
        for index, process in enumerate(self.processes):
            name = f"process {index + 2} of {self.size} (pid {process.pid})"
            said = heard[index] if heard else None
            if how := _end_of(process, self._answers[index], said, until):
                ended.append(f"{name} {how}")
            elif said is None:
                silent.append(name)
        self.end()
        rest = "The next run goes on from its last checkpoint"
        if ended:
            return ProcessLost(f"{'; '.join(ended)}: the trial lost a part of its rows. {rest}.")
        return ProcessLost(
            f"{' or '.join(silent)} did not answer in {SECONDS:g} s, and the trial cannot go on "
            f"without its rows. {rest}; processes=1 in the scale trains it without others."
        )

    def end(self) -> None:
        """End all of them, and leave their process group."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._watcher.is_alive():  # it must not leave the next trial's process group
            self._watcher.join()
        atexit.unregister(self.end)
        for process in self.processes:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        for process in self.processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        leave(self.device)
        self._folder.cleanup()


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # In a session of its own, Ctrl-C does not reach it: the worker saves the trial first.
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)


def _listening(process: subprocess.Popen[bytes]) -> Answers:
    """What a process says, from now on: a queue can be waited for with an end, and a pipe not."""
    answers: Answers = SimpleQueue()
    Thread(target=_listen, args=(process.stdout, answers), daemon=True).start()
    return answers


def _listen(pipe: IO[bytes], answers: Answers) -> None:
    try:
        with pipe:
            while (answer := receive(pipe)) is not None:
                answers.put(answer)
    finally:
        answers.put(None)


def _answer(answers: Answers, until: float) -> Message | None:
    """The next answer of a process; None if it has ended, or says nothing for too long."""
    try:
        answer = answers.get(timeout=max(0.0, until - time.monotonic()))
    except Empty:
        return None
    if answer is None:
        answers.put(None)  # whoever asks next need not wait
    return answer


def _end_of(
    process: subprocess.Popen[bytes], answers: Answers, said: Message | None, until: float
) -> str:
    """How a process ended; "" if it has not."""
    try:
        status = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return ""
    while said is None or "error" not in said.plain:
        said = _answer(answers, until)
        if said is None:
            return f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
    return f"failed: {said.plain['error']}"


def join(rank: int, size: int, device: str, folder: str) -> None:
    """Join the process group of a trial's processes, which are all on this host."""
    if device == "cuda":
        cuda.set_device(rank)  # "cuda" is this GPU from now on
        # A watchdog would end this process, where the leader names the process that was lost.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    file = str(Path(folder) / "rendezvous")
    store = distributed.FileStore(file, size)  # type: ignore[attr-defined]
    with _on_this_host(INTERFACES[device]):
        distributed.init_process_group(
            "nccl" if device == "cuda" else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=SECONDS),
            # With it nccl connects now; without, in the first update.
            device_id=torch.device("cuda", rank) if device == "cuda" else None,
        )


def leave(device: str) -> None:
    """Leave the process group, without waiting for the others, as nccl's `destroy` would."""
    with _LEAVING:
        if not distributed.is_initialized():
            return
        if device == "cuda":
            distributed.distributed_c10d._abort_process_group()
        else:
            distributed.destroy_process_group()


@contextmanager
def _on_this_host(variable: str) -> Iterator[None]:
    """Connect through the loopback interface: no other host can."""
    before = os.environ.get(variable)
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if before is None and loopback is not None:
        os.environ[variable] = loopback
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
