"""Write a batch script that runs a study on Slurm, and submit it."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.commands import _batch_script, _options
from ablate.errors import ConfigError, MissingDependency, StoreError
from ablate.redaction import redacted

if TYPE_CHECKING:
    from ablate.store.workspace import Workspace
    from ablate.study.words import Scale

EXAMPLE = "ablate slurm studies/x.py --nodes 4 --gpus 8 --time 12:00:00 -- --partition gpu"
PASSES_ON = "sbatch"  # the words after `--`
NODE_LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # on most clusters, each node has its own
FOR_SBATCH = (
    "--submit needs sbatch, which is not on the PATH. Submit on a login node of the cluster"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate slurm`."""
    parser.usage = "ablate slurm file [options] [-- SBATCH-OPTIONS]"
    _options.add_study(parser)
    _options.add_earlier(parser)
    group = parser.add_argument_group("the job (further options of sbatch follow after --)")
    add = group.add_argument
    add("--nodes", type=_options.count, default=1, metavar="N", help="nodes (default: 1)")
    add("--gpus", type=_options.count, metavar="G", help="GPUs of each node")
    cores = "cores of each node (default: what its GPUs need; without GPUs, whole nodes)"
    add("--cpus", type=_options.count, metavar="C", help=cores)
    limit = "time limit as sbatch takes it, after which the job is requeued and resumes"
    add("--time", metavar="LIMIT", help=limit)
    place = "write the script here (default: slurm/STUDY.sh in the workspace)"
    add("--to", metavar="FILE", help=place)
    add("--submit", action="store_true", help="submit the script with sbatch")
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Write the script, and submit it if asked; return where it is."""
    from ablate.store.study_record import study_key
    from ablate.study.file import load
    from ablate.study.overrides import overridden

    workspace = _options.workspace(options)
    study, name = overridden(load(options.file), options.scale, _options.overrides(options))
    key, scale = study_key(study.name, name), study.scale(name)[1]
    script = Path(options.to or workspace.folder / "slurm" / f"{key}.sh").absolute()
    file = Path(study.file).absolute()
    _check_places(workspace, {"the study file": file, "the script": script})
    asked = _directives(options, scale, script, key)
    command = _study_command(options, file, workspace)
    sbatch = shutil.which("sbatch")
    if options.submit and sbatch is None:
        raise MissingDependency(f"{FOR_SBATCH}, or leave out --submit: the script is then written.")
    text = _batch_script.written(asked, command, sys.executable, options.gpus or 0, script)
    script.parent.mkdir(parents=True, exist_ok=True)
    # The names of files may have any bytes.
    script.write_text(text, encoding="utf-8", errors="surrogateescape")
    if not options.submit:
        return f"{script}\nSubmit it with: {shlex.join(['sbatch', str(script)])}"
    job = _submitted(str(sbatch), script)
    log = script.with_name(f"{script.stem}-{job}.log")
    return f"{script}\nSubmitted as job {job}. Its output: {log}"


def _directives(options: argparse.Namespace, scale: Scale, script: Path, key: str) -> list[str]:
    asked = _batch_script.directives(
        name=key,
        log=str(script.with_suffix("")).replace("%", "%%") + "-%j.log",
        folder=Path.cwd(),
        nodes=options.nodes,
        cpus=_cores(options, scale),
        gpus=options.gpus,
    )
    limit = [] if options.time is None else [f"--time={options.time}"]
    return [*asked, *_batch_script.further([*limit, *getattr(options, PASSES_ON)])]


def _cores(options: argparse.Namespace, scale: Scale) -> int | None:
    """The cores to ask for on each node; None: all of it."""
    if scale.gpus and (options.gpus or 0) < scale.gpus:
        raise ConfigError(
            f"each trial needs {scale.gpus:g} GPUs on one node, and the job has "
            f"{options.gpus or 0} on each. Request them with --gpus."
        )
    trials, each = 1, scale.threads
    if options.gpus is not None and scale.gpus:
        trials = math.floor(options.gpus / scale.gpus)
    cores = options.cpus or (None if options.gpus is None else trials * each)
    if cores is not None and cores < each:
        raise ConfigError(
            f"each trial needs {each} cores on one node, and the job has {cores} on "
            "each. Request more with --cpus."
        )
    return cores


def _check_places(workspace: Workspace, files: dict[str, Path]) -> None:
    """Refuse what other nodes could not see: the study would end with an error, once it runs."""
    places = {"the workspace": workspace.folder, **files, "this Python": Path(sys.executable)}
    if workspace.store.folder is not None:
        places["the store"] = workspace.store.folder
    local = [Path(each) for each in (*NODE_LOCAL, os.environ.get("TMPDIR")) if each]
    for what, place in places.items():
        if any(
            place.is_relative_to(each) or place.resolve().is_relative_to(each) for each in local
        ):
            raise StoreError(
                f"{what} is at {place}, which is on a disk of this node alone. Choose a place that "
                "all nodes see, such as your home folder (--workspace, --store, --to)."
            )


def _study_command(options: argparse.Namespace, file: Path, workspace: Workspace) -> list[str]:
    """The words of the `ablate study` that the job runs, without the address of its Ray."""
    words = [sys.executable, "-m", "ablate", "study", str(file)]
    words += [] if options.scale is None else ["--scale", options.scale]
    words += _options.overrides(options).words
    words += [f"--{name}" for name in ("keep", "again") if getattr(options, name)]
    store = workspace.store
    locations = {
        "workspace": str(workspace.folder),
        "store": None if workspace.store_uri is None else store.uri,
        "mlflow": options.mlflow,  # others come from the environment, which sbatch passes on
        "searches": options.searches,
    }
    for name, value in locations.items():
        if value is not None and redacted(value) != value:
            variable = {"store": "ABLATE_STORE", "mlflow": "MLFLOW_TRACKING_URI"}.get(name)
            raise ConfigError(
                f"--{name} {value} has a secret in it, which the script would show. Instead, set "
                f"{variable or 'ABLATE_SEARCHES'} when you submit the job: sbatch passes it on."
            )
        words += [] if value is None else [f"--{name}", value]
    return words


def _submitted(sbatch: str, script: Path) -> str:
    """Submit a script; return the number of its job."""
    ended = subprocess.run([sbatch, "--parsable", str(script)], capture_output=True, text=True)
    if ended.returncode:
        raise ConfigError(f"sbatch refuses {script}: {ended.stderr.strip() or ended.returncode}")
    return ended.stdout.strip().partition(";")[0]
