"""What each arm of a study trained with: where its trials' configs differ from the base arm's.

The configs come from the journals, so they are resolved: after the scale's `adapt`, and with what a
search chose. A stage is compared with the base arm's stage of that name; a stage that the base arm
does not have is compared with the arm's own stage before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ablate.compare.judged import Judged
from ablate.config.registry import listed_slots
from ablate.store.study_record import ArmRecord

Values = Mapping[str, Any]
Configs = Mapping[str, Mapping[int, Values]]  # by stage, in their order, and seed index


def differences(judged: Judged) -> dict[str, str]:
    """For each arm, its recipe and values where they differ from those of the base arm."""
    base = judged.record.arm(judged.record.base_arm)
    base_configs = _configs(judged, base.name)
    texts = {}
    for arm in judged.record.arms:
        parts = [f"recipe {arm.recipe}"] if arm.recipe not in ("", base.recipe) else []
        parts += _changed(judged, arm, base_configs) if arm is not base else []
        texts[arm.name] = "; ".join(parts) or "nothing"
    of_base = f"recipe {base.recipe}, " if base.recipe else ""
    return {**texts, base.name: f"the base arm: {of_base}its values are below"}


def base_values(judged: Judged) -> list[list[str]]:
    """Every field of the base arm's first training, and its value."""
    trained = _configs(judged, judged.record.base_arm).get("train", {})
    first = next(iter(trained.values()), {})
    return [[name, json.dumps(value)] for name, value in sorted(first.items())]


def _configs(judged: Judged, arm: str) -> Configs:
    configs: dict[str, dict[int, Values]] = {}
    for trial in judged.record.trials_of(arm):
        journal = judged.journals.get(trial.id)
        if journal is not None and journal.config:
            configs.setdefault(trial.stage, {})[trial.seed_index] = journal.config
    return configs


def _changed(judged: Judged, arm: ArmRecord, base: Configs) -> list[str]:
    """What each stage changes. Seeds whose changes differ, as after several searches, are listed
    separately."""
    own = _configs(judged, arm.name)
    if not own:
        changes = ", ".join(f"{name} = {json.dumps(value)}" for name, value in arm.changes.items())
        return [f"nothing trained yet; the study asks for: {changes or 'nothing'}"]
    seeds = {(t.stage, t.seed_index): t.seed for t in judged.record.trials_of(arm.name)}
    parts = []
    earlier: Mapping[int, Values] = {}  # the configs of the stage before
    mentioned: Mapping[int, Values] = {}  # the differences of the stages before
    for stage, configs in own.items():
        texts: dict[str, list[int]] = {}
        changed = {}
        for index, config in configs.items():
            of_base = _like(base.get(stage, {}), index)
            changed[index] = _difference(config, of_base or _like(earlier, index))
            known = _like(mentioned, index) if of_base else {}
            new = [text for name, text in changed[index].items() if known.get(name) != text]
            texts.setdefault(", ".join(new), []).append(seeds[stage, index])
        parts += [_of_stage(stage, texts)] if any(texts) else []
        earlier, mentioned = configs, changed
    return parts


def _like(by_index: Mapping[int, Values], index: int) -> Values:
    """The values of the same seed; of any seed, where a stage takes all of them together."""
    return by_index[index] if index in by_index else next(iter(by_index.values()), {})


def _of_stage(stage: str, texts: Mapping[str, list[int]]) -> str:
    title = "" if stage == "train" else f"{stage}: "
    if len(texts) == 1:
        return title + next(iter(texts))
    named = []
    for text, seeds in texts.items():
        noun = "seed" if len(seeds) == 1 else "seeds"
        named.append(f"{noun} {', '.join(map(str, seeds))}: {text or 'nothing'}")
    return title + "; ".join(named)


def _difference(config: Values, reference: Values) -> dict[str, str]:
    """A text for every field, or technique, in which a config is not like another."""
    ours, theirs = _techniques(config), _techniques(reference)
    texts = {name: f"without {name}" for name in sorted(theirs - ours)}
    for name, value in config.items():
        added = ".".join(name.split(".")[:2]) in ours - theirs
        text = json.dumps(value)
        # Of a technique that the other config lacks, fields that are 0 or off tell nothing.
        if text != json.dumps(reference.get(name)) and (value or not added):
            texts[name] = f"{name} = {text}"
    return texts


def _techniques(config: Values) -> set[str]:
    """`regularizer.dropout`: those of listed slots, of which a config may have any number."""
    listed = (name.split(".") for name in config if name.split(".")[0] in listed_slots())
    return {".".join(parts[:2]) for parts in listed}
