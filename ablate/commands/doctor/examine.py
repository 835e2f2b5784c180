"""`ablate doctor`: checks for everything that a study needs, with a remedy for what is missing.

No check changes anything or takes longer than `PATIENCE_S`, and no password is ever shown.
"""

from __future__ import annotations

import os
import threading

from ablate.commands.doctor import cluster, machine, places
from ablate.commands.doctor.finding import FAIL, WARN, Check, Finding
from ablate.store.workspace import Workspace

PATIENCE_S = 60.0
OTHER_FOLDER = "Free some space, or choose another folder with --workspace (or ABLATE_WORKSPACE)."


def checks(address: str) -> list[Check]:
    """Return every check, in the order in which they are shown. `address`: of a Ray cluster."""
    return [
        Check("packages", machine.packages),
        Check("workspace", places.folder, OTHER_FOLDER),
        Check("store", places.store),
        Check("mlflow", places.mlflow),
        Check("searches", places.searches),
        Check("ray", lambda _: cluster.cluster(address)),
        Check("devices", machine.devices),
    ]


def examine(workspace: Workspace, address: str | None = None) -> int:
    """Print a line for each finding; return the exit code of the first failure, or 0."""
    chosen = checks(os.environ.get("RAY_ADDRESS", "") if address is None else address)
    findings: list[Finding] = []
    for running in [Running(check, workspace) for check in chosen]:  # all of them at once
        for finding in running.findings():
            findings.append(finding)
            print(_line(running.check.name, finding), flush=True)
    failures = [finding for finding in findings if finding.state == FAIL]
    num_warnings = sum(finding.state == WARN for finding in findings)
    print(f"\n{_counted(len(failures), 'failure')}, {_counted(num_warnings, 'warning')}")
    return failures[0].exit_code if failures else 0


class Running:
    """A check that runs in a thread, so that one that hangs is left behind."""

    def __init__(self, check: Check, workspace: Workspace) -> None:
        self.check, self._found = check, list[Finding]()
        self._thread = threading.Thread(
            # A daemon does not keep the process from ending.
            target=lambda: self._found.extend(check.findings(workspace)),
            daemon=True,
        )
        self._thread.start()

    def findings(self, patience: float = PATIENCE_S) -> list[Finding]:
        """Return the check's findings in bounded time."""
        self._thread.join(patience)
        if self._thread.is_alive():
            late = f"no answer within {patience:g} s"
            return [Finding(FAIL, late, "Is the network up, and the disk?")]
        return self._found


def _line(name: str, finding: Finding) -> str:
    text = " ".join(finding.found.split())
    end = "" if not finding.remedy or text.endswith((".", "!", "?")) else "."
    return f"{finding.state:<5} {name:<10} {text}{end} {finding.remedy}".rstrip()


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
