"""The text of a batch script for Slurm: what sbatch is asked for, what runs, and the fixed rest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablate.errors import ConfigError

BODY = Path(__file__).parents[1] / "templates" / "slurm.sh.txt"
WARNING_SECONDS = 120  # before the time is up: a study that is stopped first saves its trials


def written(
    directives: Sequence[str], study: Sequence[str], python: str, gpus: int, script: Path
) -> str:
    """Return the whole script."""
    values = {
        "python": shlex.quote(python),
        "gpus": str(gpus),
        "script": shlex.quote(str(script)),
        "study": f"({shlex.join(study)})",
    }
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {each}" for each in directives),
        *(f"{name}={value}" for name, value in values.items()),
    ]
    return "\n".join(lines) + "\n" + BODY.read_text(encoding="utf-8")


def directives(
    *, name: str, log: str, folder: Path, nodes: int, cpus: int | None, gpus: int | None
) -> list[str]:
    """Return what every job asks for; `cpus` is None for whole nodes."""
    return [
        *_quoted({"job-name": name, "output": log, "chdir": str(folder)}),
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        "--exclusive" if cpus is None else f"--cpus-per-task={cpus}",
        *([] if gpus is None else [f"--gpus-per-node={gpus}"]),
        "--requeue",
        f"--signal=B:USR1@{WARNING_SECONDS}",
        "--open-mode=append",
    ]


def further(words: Sequence[str]) -> list[str]:
    """Return the user's options of sbatch, a line each: sbatch lets the later of two win."""
    lines: list[str] = []
    for word in words:
        if re.search(r"[\n\r\0]", word):
            raise ConfigError(f"the option {word!r} of sbatch has a line break. Leave it out.")
        if word.startswith("-"):
            lines.append(_word(word))
        elif lines:
            lines[-1] += f" {_word(word)}"
        else:
            raise ConfigError(
                f"{word!r} is not an option of sbatch. After -- come its options, such as: "
                "-- --partition gpu"
            )
    return lines


def _quoted(options: Mapping[str, str]) -> list[str]:
    return [further([f"--{name}={value}"])[0] for name, value in options.items()]


def _word(text: str) -> str:
    """Quote a word as sbatch reads it. It knows no `$`, and takes a backslash as bash does."""
    return text if re.fullmatch(r"[\w.,:;=@%+/\[\]*-]+", text) else shlex.quote(text)
