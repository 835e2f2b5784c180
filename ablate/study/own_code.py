"""The user's code that the trials of a study run: functions of tasks, and techniques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ablate.config.config import Config
from ablate.config.plugins import comes_with_a_plugin
from ablate.config.registry import Technique, of_users
from ablate.config.tasks import Kind
from ablate.study.arms import find_space
from ablate.study.study import Study
from ablate.study.words import Arm, Scale


def used_code(
    study: Study, scale: Scale, arms: Sequence[Arm], configs: Mapping[str, Config]
) -> list[Kind | Technique]:
    """Return the user's tasks that the arms are of, and the techniques that trials may have.

    These are the techniques of the arms, and all that the study's stages and searches name: one
    too many only costs workers an import.
    """
    used = {c.kind.name: c.kind for c in configs.values() if c.kind.function}
    kinds = {name: kind for name, kind in used.items() if not comes_with_a_plugin(kind.module)}
    own = of_users()
    if not own:  # as in most studies: their spaces need not be read for this
        return [*kinds.values()]
    chosen = [technique for config in configs.values() for technique in config.techniques]
    stages = (*scale.stages, *(stage for arm in arms for stage in arm.then))
    searches = (scale.search, *(stage.search for stage in stages))
    spaces = (find_space(study, search.space) for search in searches if search)
    # Looked for anywhere in these texts: rather one too many than one too few.
    named = f"{scale}{arms}{study.measure}{[space.rows for space in spaces]}"
    return [*kinds.values(), *(t for t in own if t in chosen or t.name in named)]


def with_own_file(study: Study, code: Sequence[Kind | Technique]) -> Study:
    """Return the study; if no file of its techniques has all its code, workers execute its own.

    They get the modules that it imports in this way, too.
    """
    known = {str(Path(file).resolve()) for file in study.techniques}
    own = str(Path(study.file).resolve())
    if not study.file or own in known or all(each.file in known for each in code):
        return study
    return replace(study, techniques=(*study.techniques, own))
