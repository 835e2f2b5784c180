"""Where a study's trials run, one after another here or over Ray, and what workers are sent."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.config.identity import Trial
from ablate.engine.cores import room_for
from ablate.errors import ConfigError
from ablate.store.leftovers import owned_folder
from ablate.store.workspace import Workspace
from ablate.study.planned import Plan
from ablate.study.words import Scale
from ablate.tune.choice import Choice

if TYPE_CHECKING:
    from ablate.tune.cluster.template import Template


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a study is run. No option changes its results, except `earlier`: which trials on record
    count."""

    local: bool = False
    workers: int | None = None
    address: str | None = None
    verbose: bool = False
    quiet: bool = False
    template: Template | None = None  # forks the workers
    earlier: Choice = Choice.ASK  # what to do with trials of earlier code

    def __post_init__(self) -> None:
        if self.local and (self.workers or 1) > 1:
            raise ConfigError(
                f"--local runs one trial at a time, and --workers {self.workers} needs Ray. "
                "Leave out one of the two."
            )
        if self.local and self.address:
            raise ConfigError(
                "--local runs in this process, and --cluster on the Ray at an address. "
                "Leave out one of the two."
            )


def drive(schedule: Any, workspace: Workspace, options: RunOptions) -> None:
    """Run the schedule's trials until none is left or it is stopping."""
    if schedule.exhausted:
        return
    plan = schedule.plan
    if options.local:
        from ablate.trial.run import check_gpus
        from ablate.tune import local

        check_gpus(plan.scale_name, plan.scale.gpus)
        local.run(schedule, lambda trial: _order(trial, workspace))
        return
    from ablate.trial.travel import send, send_files
    from ablate.tune.cluster.ray_names import check

    if (slower := check()) is not None:
        schedule.note(slower)
        if options.template is not None:
            options.template.stop()  # nobody will ask it for a worker
    from ablate.tune.cluster import drive as cluster  # needs the names that were checked

    fleet, more, parcels = _fleet(plan, workspace, options), dict[str, Any](), dict[str, Any]()
    # Workers start in another folder, where a relative path would lead elsewhere.
    path = [str(Path(each).absolute()) if Path(each).is_dir() else each for each in sys.path]

    def order(trial: Trial) -> dict[str, Any]:
        if not more:
            return {**_order(trial, workspace), "path": path}
        files = {"files": send_files([*trial.config.files.values()], workspace.store)}
        read = parcels.get(trial.corpus_digest) or parcels[plan.record.corpus_digest]
        return {**_order(trial, workspace), **more, **files, "corpus": read}

    with owned_folder("ablate-parcel-", Path(tempfile.gettempdir())) as folder:
        if fleet.address not in (None, "local"):
            more = _order_to_other_hosts(plan, folder / "parcel")
            parcels = {
                digest: data and send(data, workspace.data, workspace.store)
                for digest, data in plan.texts.items()
            }
            fleet = replace(fleet, working_dir=str(folder / "parcel"))
        cluster.run(schedule, fleet, order)


@contextlib.contextmanager
def workers_prepared(options: RunOptions, scale: Scale | None = None) -> Iterator[RunOptions]:
    """Import what workers need while the block runs: give the options with their template.

    Before the scale is known, workers of one core are prepared. A cluster has no template, nor has
    a scale with GPUs: a process that has used one cannot be forked. A template that does not fit is
    stopped, since it holds hundreds of megabytes.
    """
    address = options.address or os.environ.get("RAY_ADDRESS")
    cores = 1 if scale is None else scale.threads
    gpus = scale is not None and scale.gpus
    if options.template is not None and cores == 1 and not gpus:
        yield options
        return
    if options.template is not None:
        options.template.stop()
    if options.local or address not in (None, "local") or gpus:
        yield replace(options, template=None)
        return
    from ablate.tune.cluster.template import started, worker_env

    with started(worker_env(cores)) as template:
        yield replace(options, template=template)


def _order(trial: Trial, workspace: Workspace) -> dict[str, Any]:
    return {"trial": trial.to_plain(), "store": workspace.store.uri, "data": workspace.data}


def _order_to_other_hosts(plan: Plan, folder: Path) -> dict[str, Any]:
    """Return the further entries of an order to workers on other hosts: no folder of this host."""
    from ablate.tune.cluster.parcel import pack

    scripts = (each.kind.file for each in plan.configs.values() if each.kind.values)
    script = next((file for file in scripts if Path(file).is_file()), "")
    modules = pack(plan.study.file or script, plan.study.techniques, folder)
    return {"data": "", "study": plan.record.key, "modules": modules}


def _fleet(plan: Plan, workspace: Workspace, options: RunOptions) -> Any:
    from ablate.tune.cluster.drive import Fleet

    address = options.address or os.environ.get("RAY_ADDRESS")
    here = room_for(plan.scale.threads)
    return Fleet(
        workers=options.workers or (here if address in (None, "local") else None),
        cpus_per_trial=plan.scale.threads,
        gpus_per_trial=plan.scale.gpus,
        address=address,
        verbose=options.verbose,
        template=options.template and options.template.path,
        tmp=str(workspace.folder / "ray"),
        advice=f"Everything that was saved is kept; resume with: {plan.record.resume}",
    )
