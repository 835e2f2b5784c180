"""Makes logs with the harnesses that are installed beside this file's models: `make evaluations`.

    python -m tests.lab.evaluations HARNESS_PYTHON [--write]

HARNESS_PYTHON has lm_eval and inspect_ai. Small logs must be read as those of
`tests/judging/evaluations/`, which `--write` replaces. Two models of 200 sums and three trainings
must be judged as docs/judging.md prints it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ablate.judging import files
from tests.support.places import DOCS, ROOT

HERE = Path(__file__).parent
KEPT = ROOT / "tests" / "judging" / "evaluations"
SKILLS = {"plain": 0.55, "tuned": 0.63}
SHOWN = re.compile(r"```bash\n(ablate judge evals [^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)
# Neither harness asks a hub for anything.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.evaluations", description=__doc__)
    parser.add_argument("python", help="the Python that has lm_eval and inspect_ai")
    parser.add_argument("--write", action="store_true", help="keep the small logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small = make_small(options.python, Path(folder) / "small")
        if options.write:
            shutil.rmtree(KEPT, ignore_errors=True)
            shutil.copytree(small, KEPT)
        faults = [*differ(small, KEPT), *unlike_page(options.python, Path(folder) / "page")]
    print(*faults or ["The harnesses' logs are read and judged as before."], sep="\n")
    return bool(faults)


def make_small(python: str, place: Path) -> Path:
    """Four sums by lm_eval, and two by Inspect in both of its formats."""
    sums(python, place, 4)
    logs = place / "logs"
    for arm, skill in SKILLS.items():
        lm_eval(python, place, skill, 1, logs / "lm_eval" / arm)
    for (arm, skill), form in zip(SKILLS.items(), ("eval", "json"), strict=True):
        words = [f"{skill}", "1", "2", form, str(logs / "inspect" / arm)]
        call(python, place, str(HERE / "inspect_sums.py"), *words)
    return logs


def sums(python: str, place: Path, num: int) -> None:
    """Write the sums, and the task that reads them, where the harness looks for both."""
    place.mkdir()
    shutil.copy(HERE / "sums.yaml", place)
    code = f"import answers, pathlib; answers.write(pathlib.Path('sums.jsonl'), {num})"
    call(python, place, "-c", code)


def lm_eval(python: str, place: Path, skill: float, seed: int, folder: Path) -> None:
    """Evaluate one training by lm-evaluation-harness."""
    words = ["--model", "sums", "--model_args", f"skill={skill},seed={seed}", "--tasks", "sums"]
    words += ["--include_path", ".", "--output_path", str(folder), "--log_samples"]
    call(python, place, str(HERE / "harness.py"), *words)


def call(python: str, place: Path, *words: str) -> None:
    """Run the harnesses' Python where their data are."""
    cache = str(place / "cache")
    own = {**os.environ, **OFFLINE, "PYTHONPATH": str(HERE), "HF_HOME": cache}
    subprocess.run([python, *words], cwd=place, env=own, check=True, capture_output=True)


def differ(new: Path, kept: Path) -> list[str]:
    """What is read of the new logs, and not of those that are kept."""
    rows = [list(map(_without_names, files.read(str(folder)))) for folder in (new, kept)]
    if sorted(rows[0]) == sorted(rows[1]):
        return []
    return [f"{kept} is read as {rows[1][:1]}, and new logs as {rows[0][:1]}"]


def _without_names(row: dict) -> str:
    """A row without the folder that lm_eval names after a model's digest."""
    return repr({name: value for name, value in row.items() if name != "folder.2"})


def unlike_page(python: str, place: Path) -> list[str]:
    """What docs/judging.md prints of the larger example, and the command does not."""
    sums(python, place, 200)
    for arm, skill in SKILLS.items():
        for seed in (1, 2, 3):
            lm_eval(python, place, skill, seed, place / "evals" / arm / str(seed))
    page = (DOCS / "judging.md").read_text("utf-8")
    (found,) = SHOWN.finditer(page)
    command, shown = found.groups()
    own = {**os.environ, "COLUMNS": "140"}
    program = [str(Path(sys.executable).with_name("ablate")), *command.split()[1:]]
    printed = subprocess.run(program, cwd=place, env=own, check=True, stdout=subprocess.PIPE)
    text = " ".join(printed.stdout.decode().split())
    missing = [line for line in shown.splitlines() if " ".join(line.split()) not in text]
    return [f"docs/judging.md prints what the command does not: {line}" for line in missing]


if __name__ == "__main__":
    sys.exit(main())
