"""`ablate doctor`: checks for everything that a study needs, with a remedy for what is missing.

A check examines one thing and yields findings. No check changes anything or takes longer than
`PATIENCE_S`, and no password is ever shown.
"""

from __future__ import annotations

import threading

from ablate.commands.doctor.finding import FAIL, OK, WARN, Check, Finding
from ablate.errors import AblateError, to_install
from ablate.store.workspace import Workspace

PATIENCE_S = 60.0


def examine(workspace: Workspace, address: str | None = None) -> int:
    """Print a line for each finding; return the exit code of the first failure, or 0."""
    findings: list[Finding] = []
    chosen = checks()
    if address is not None:
        from ablate.commands.doctor.cluster import cluster

        chosen["ray"] = cluster(address)
    # This one spends seconds waiting for a process of its own: the others run meanwhile.
    started = {n: Running(check, workspace) for n, check in chosen.items() if n == "devices"}
    for name, check in chosen.items():
        early = started.get(name)
        for finding in early.findings(name) if early else outcome(name, check, workspace):
            findings.append(finding)
            print(_line(name, finding), flush=True)
    failures = [finding for finding in findings if finding.state == FAIL]
    num_warnings = sum(finding.state == WARN for finding in findings)
    print(f"\n{_counted(len(failures), 'failure')}, {_counted(num_warnings, 'warning')}")
    return failures[0].exit_code if failures else 0


def checks() -> dict[str, Check]:
    """Return every check by name, each after the ones that it depends on; the slowest is last."""
    from ablate.commands.doctor import machine, places, studies

    return {
        "python": machine.python,
        "packages": machine.packages,
        "disk": machine.disk,
        "workspace": places.folder,
        "store": places.store,
        "mlflow": places.mlflow,
        "searches": places.searches,
        "ray": places.ray,
        "corpora": studies.corpora,
        "studies": studies.studies,
        "leftovers": studies.leftovers,
        "devices": machine.devices,
    }


class Running:
    """A check that runs in a thread."""

    def __init__(self, check: Check, workspace: Workspace) -> None:
        self._found: list[Finding] = []
        self._thread = threading.Thread(
            target=lambda: self._found.extend(_findings(check, workspace)), daemon=True
        )
        self._thread.start()

    def findings(self, name: str, patience: float = PATIENCE_S) -> list[Finding]:
        """Return the check's findings in bounded time; an error in the check is a finding too."""
        self._thread.join(patience)
        if self._thread.is_alive():
            late = Finding(
                FAIL, f"no answer within {patience:g} s", "Is the network up, and the disk?"
            )
            return [late]
        return self._found or [Finding(OK, f"no finding for {name}")]


def outcome(
    name: str, check: Check, workspace: Workspace, patience: float = PATIENCE_S
) -> list[Finding]:
    """Run a check, and return its findings."""
    return Running(check, workspace).findings(name, patience)


def _findings(check: Check, workspace: Workspace) -> list[Finding]:
    try:
        return list(check(workspace))
    except AblateError as error:
        return [Finding(FAIL, str(error), exit_code=error.exit_code)]
    except ModuleNotFoundError as error:
        missing = f"the package {error.name} is not installed"
        return [Finding(FAIL, missing, to_install(error.name or ""), 7)]
    except Exception as error:
        return [Finding(FAIL, f"{type(error).__name__}: {error}", "This is a bug in ablate.")]


def _line(name: str, finding: Finding) -> str:
    text = " ".join(finding.found.split())
    end = "" if not finding.remedy or text.endswith((".", "!", "?")) else "."
    return f"{finding.state:<5} {name:<10} {text}{end} {finding.remedy}".rstrip()


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
