"""Uses ablate with other versions of what it needs: `make test-versions`.

    python -m tests.lab.versions [oldest] [newest] [python3.13 ...]

A virtual environment of each, in build/versions, has this checkout and what oldest.txt pins, or the
newest of everything, of this Python or of one that is named. There a table is judged, and a study
runs over Ray to its own table, its records in MLflow, its report and a query. Prints the versions,
and what failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.places import ROOT, STUDIES

HERE = Path(__file__).parent
NAMED = ("torch", "ray", "optuna", "mlflow", "numpy", "scipy", "pyarrow", "duckdb")
COMMANDS = (
    f"ablate judge {ROOT / 'docs' / 'runs.csv'} --arm model --metric acc --better higher",
    f"ablate study {STUDIES / 'doc_layer_mix.py'} --scale smoke",
    "ablate table doc_layer_mix@smoke",
    "ablate report doc_layer_mix@smoke",
    'ablate query "SELECT count(*) FROM trials"',
    "ablate report sync",
)
LOST = "not recorded yet"  # what a study says of trials that MLflow did not take


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.versions", description=__doc__)
    parser.add_argument(
        "sets", nargs="*", default=["oldest", "newest"], help="oldest, newest, or a Python"
    )
    failed = [fault for name in parser.parse_args().sets for fault in tried(name)]
    print(*failed or ["Everything passed."], sep="\n")
    return bool(failed)


def tried(name: str) -> list[str]:
    """Return what failed with these versions, each with the end of what was printed."""
    python = installed(name)
    found = output([python, "-m", "pip", "list", "--format", "freeze"])[1].splitlines()
    known = dict(line.split("==") for line in found if "==" in line)
    version = output([python, "-V"])[1].strip()
    print(f"{name}: {version}, {', '.join(f'{each} {known[each]}' for each in NAMED)}", flush=True)
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(python).parent
        for command in COMMANDS:
            status, printed = output(["sh", "-c", f"PATH={path}:$PATH {command}"], folder)
            if status or LOST in printed:
                faults.append(f"{name}: {command}\n{printed[-2000:]}")
    return faults


def installed(name: str) -> str:
    """Return the Python of an environment, which is made where it is missing."""
    folder = ROOT / "build" / "versions" / name
    python = str(folder / "bin" / "python")
    if not (folder / "ready").exists():
        maker = name if name.startswith("python") else sys.executable
        subprocess.run([maker, "-m", "venv", "--clear", folder], check=True)
        pinned = ["-c", str(HERE / "oldest.txt")] if name == "oldest" else []
        install = [python, "-m", "pip", "install", "-q", *pinned, "-e", f"{ROOT}[all]"]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return python


def output(command: list[str], folder: str | Path = ROOT) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main())
