"""A real Slurm of two nodes on this machine: a controller, and a daemon for each node.

The simplest plugins: no cgroups (processes are followed by their parents), no accounting, and no
authentication, since all daemons and users are one. Both nodes are this host.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "squeue", "srun")
NODES = ("one", "two")
CONF = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=10
{nodes}
PartitionName=work Nodes=one,two Default=YES State=UP
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def wait_for(condition: Callable[[], object], what: str, seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s: not {what}"
        time.sleep(0.2)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    """Controller and node daemons, which run until the block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "state").mkdir()
        ports = _free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
            for name, port in zip(NODES, ports[1:], strict=True)
        )
        conf = folder / "slurm.conf"
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        conf.write_text(CONF.format(ports=ports, folder=folder, nodes=nodes, user=user))
        self.env = {**os.environ, "SLURM_CONF": str(conf)}
        self._daemons: list[subprocess.Popen] = []

    def __enter__(self) -> Slurm:
        try:
            for words in (["slurmctld"], *(["slurmd", "-N", name] for name in NODES)):
                daemon = [words[0], "-D", *words[1:]]
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                self._daemons.append(subprocess.Popen(daemon, env=self.env, **quiet))
            wait_for(lambda: self.run("sinfo", "-h", "-o", "%D %T").strip() == "2 idle", "idle", 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait()

    def run(self, *words: str) -> str:
        """Run a command of Slurm's; return what it prints, also if it fails."""
        ended = subprocess.run(words, env=self.env, capture_output=True, text=True)
        return ended.stdout + ended.stderr

    def state(self, job: str) -> str:
        """A job's state, such as RUNNING; a job that has ended keeps one for minutes."""
        return self._fact(job, "JobState")

    def restarts(self, job: str) -> int:
        """How often a job was requeued."""
        return int(self._fact(job, "Restarts"))

    def node(self, job: str) -> str:
        """The node on which a job of one node runs, or ran."""
        return self._fact(job, "NodeList")

    def _fact(self, job: str, name: str) -> str:
        pairs = (pair.partition("=") for pair in self.run("scontrol", "show", "job", job).split())
        return next(value for key, _, value in pairs if key == name)
