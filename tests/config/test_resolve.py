"""Flat values and the configs they resolve to; which part of a config determines a trial.

The defaults of every config are kept in tests/golden/defaults.json, and what its fields accept in
limits.json (`tests/support/golden.py`).
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.config import fields, registry
from ablate.config.config import Config
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.errors import ConfigError
from ablate.lm.kinds import ENCODER_DECODER, LANGUAGE
from ablate.space.space import load
from ablate.study.study import Study
from ablate.study.words import Arm, Design, Inherit, Ladder, Scale, Search, Stage
from tests.support import places
from tests.support.golden import golden, regenerating

OTHER_SECTIONS = {
    f"{ENCODER_DECODER.name} {name}": config
    for name, config in ENCODER_DECODER.sections.items()
    if config is not LANGUAGE.sections[name]
}
SMALL = {
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": [12, 8],
    "embedding.size": 8,
    "head": "doc",
    "head.experts": [2, 1, 0],
    "optimizer": "nt_asgd",
    "optimizer.learning_rate": 5.0,
    "regularizer.weight_drop.rate": 0.2,
    "regularizer.variational_dropout.hidden": 0.1,
}
RECIPES = [("takase2018doc_table2", "ptb"), ("takase2018doc_table2", "wikitext-2")]
RECIPES += [("yang2018mos", "ptb"), ("yang2018mos", "wikitext-2")]


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(values, "here")
    return str(caught.value)


@pytest.mark.parametrize(("name", "corpus"), RECIPES)
def test_a_recipe_resolves_to_what_it_says(name: str, corpus: str):
    values = load(name).values(corpus)
    flat = resolve(values).flat
    shown = {key: value for key, value in values.items() if key in flat}
    assert len(shown) > 20
    assert {key: flat[key] for key in shown} == {key: fields.plain(shown[key]) for key in shown}


@pytest.mark.parametrize("values", [SMALL, *(load(n).values(c) for n, c in RECIPES)])
def test_setting_every_value_gives_the_same_config(values: dict[str, Any]):
    config = resolve(values)
    assert resolve(config.flat).identity == config.identity
    assert resolve(config.flat).flat == config.flat


@given(st.randoms(use_true_random=False))
def test_the_order_of_values_says_nothing(rng: random.Random):
    items = list(SMALL.items())
    rng.shuffle(items)
    assert resolve(dict(items)).identity == resolve(SMALL).identity


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("backbone.units", [12, 8], (12, 8)),
        ("optimizer.learning_rate", 5, 5.0),
        ("regularizer.weight_drop.rate", 0.0, 0),
        ("training.clip", None, None),
    ],
)
def test_one_value_written_in_two_ways(name: str, one: Any, other: Any):
    identities = [resolve({**SMALL, name: value}).identity for value in (one, other)]
    assert identities[0] == identities[1]
    assert repr(identities[0]) == repr(identities[1])


def settings(config: Config) -> dict[str, fields.FieldInfo]:
    """Return every field of the small config, by its dotted name."""
    parts = dict(LANGUAGE.sections) | {
        slot: choice.technique.config for slot, choice in config.slots.items()
    }
    parts |= {
        f"regularizer.{name}": registry.get("regularizer", name).config
        for name in registry.names("regularizer")
    }
    by_name = {}
    for prefix, config_type in parts.items():
        by_name |= {f"{prefix}.{info.name}": info for info in fields.describe(config_type)}
    return by_name


def another(info: fields.FieldInfo, now: Any) -> list[Any]:
    """Return valid values of the field other than its current one."""
    if info.limits.choices is not None:
        return [choice for choice in info.limits.choices if choice != now]
    if isinstance(now, bool):
        return [not now]
    if isinstance(now, str):
        return ["ptb"]
    if isinstance(now, list):
        return [[*now[:-1], now[-1] + 1]]
    low, high = info.limits.low or 0, info.limits.high
    tried = [now + 1, now / 2, (now + 1) / 2] if now is not None else [low + 100, low + 0.5]
    return [value for value in tried if value != now and (high is None or value <= high)]


def switched_on(name: str) -> dict[str, Any]:
    """Return values that switch on the regularizer that a field belongs to."""
    prefix, _, _ = name.rpartition(".")
    first = next(field for field in SETTINGS if field.startswith(f"{prefix}."))
    if first == name or not prefix.startswith("regularizer."):
        return {}
    return {first: another(SETTINGS[first], SETTINGS[first].default)[0]}


def accepted(name: str, base: dict[str, Any], values: list[Any]) -> Config | None:
    for value in values:
        try:
            return resolve({**base, name: value})
        except ConfigError:
            continue
    return None


SETTINGS = settings(resolve(SMALL))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_field_is_part_of_a_trials_identity_unless_it_says_otherwise(name: str):
    base = {**SMALL, **switched_on(name)}
    before, info = resolve(base), SETTINGS[name]
    flat = before.flat | {f: i.default for f, i in SETTINGS.items() if f not in before.flat}
    after = accepted(name, base, another(info, fields.plain(flat[name])))
    assert after is not None, "no other value was found for it"
    assert (after.identity != before.identity) == info.limits.identity


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_a_default_changes_nothing(name: str):
    info = SETTINGS[name]
    if name not in SMALL and not info.required:
        explicit = resolve({**SMALL, name: info.default})
        assert explicit.identity == resolve(SMALL).identity


def defaults() -> dict[str, dict[str, Any]]:
    """Return all defaults, which are in no id, by section or by technique and version."""
    parts = dict(LANGUAGE.sections) | OTHER_SECTIONS
    for slot in registry.slots():
        for name in registry.names(slot):
            technique = registry.get(slot, name)
            if technique.module.startswith("ablate."):
                version = technique.version_of(technique.config())
                parts[f"{slot} {name}, version {version}"] = technique.config
    return {
        part: {
            info.name: "required" if info.required else fields.plain(info.default)
            for info in fields.describe(config)
        }
        for part, config in parts.items()
    }


@pytest.mark.golden
def test_no_default_has_changed_behind_the_back_of_old_ids():
    """A default is in no id. Changing one requires a new version of its technique."""
    now = defaults()
    add_new_defaults(now)
    for part, known in json.loads(golden("defaults.json", as_json(now), "ids")).items():
        if part in now:  # otherwise it has another version, or is gone
            assert {name: now[part].get(name, "gone") for name in known} == known, part


@pytest.mark.golden
def test_no_limit_has_changed_unnoticed():
    """Those of every config, and of the classes of study files with their defaults.

    A wider limit lets through what no test has tried, a narrower one refuses recorded trials.
    """
    configs = {**LANGUAGE.sections, **OTHER_SECTIONS}
    for slot in registry.slots():
        for name in registry.names(slot):
            technique = registry.get(slot, name)
            if technique.module.startswith("ablate."):
                configs[f"{slot} {name}"] = technique.config
    limits = {part: limits_of(config) for part, config in configs.items()}
    words = (Arm, Design, Inherit, Ladder, Scale, Search, Stage, Study)
    limits |= {word.__name__: limits_of(word, with_defaults=True) for word in words}
    for part, known in json.loads(golden("limits.json", as_json(limits))).items():
        assert {name: limits[part].get(name, "gone") for name in known} == known, part


def limits_of(config: type, *, with_defaults: bool = False) -> dict[str, str]:
    """What each field of a dataclass accepts, as messages and help pages say it."""
    return {
        info.name: f"{info.allowed}, default {info.default!r}"
        if with_defaults and not info.required
        else info.allowed
        for info in fields.describe(config)
    }


def add_new_defaults(now: dict) -> None:
    """`make goldens` adds configs and fields; it changes no known default."""
    if regenerating():
        path = places.GOLDEN / "defaults.json"
        known = json.loads(path.read_text())
        merged = {part: {**fields, **known.get(part, {})} for part, fields in now.items()}
        path.write_text(as_json(merged))


def as_json(parts: dict) -> str:
    return json.dumps(parts, indent=1) + "\n"


def test_a_technique_keeps_the_fields_that_the_next_one_has():
    merged = merge(SMALL, {"head": "mos", "head.experts": 3})
    assert merged["head"] == "mos" and merged["head.experts"] == 3
    assert "head.experts" not in merge(SMALL, {"head": "softmax"})
    assert "backbone.units" in merge(SMALL, {"backbone": "lstm"})


def test_elements_and_whole_lists_replace_each_other():
    merged = merge(SMALL, {"backbone.units[0]": 99})
    assert resolve(merged)["backbone"].config.units == (99, 8)
    whole = merge(merged, {"backbone.units": [3, 8]})
    assert resolve(whole)["backbone"].config.units == (3, 8)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"bakcbone.units": 3},
            "here: unknown slot or section 'bakcbone'. Did you mean 'backbone'",
        ),
        ({"training": 3}, "training = 3 is not allowed. Expected: 'training.<field>' keys."),
        ({"training.epohcs": 3}, "here: training: unknown field 'epohcs'. Did you mean 'epochs'?"),
        ({"training.epochs": 1.5}, "training.epochs = 1.5 is not allowed. Expected: whole number"),
        ({"training.epochs": True}, "training.epochs = True is not allowed."),
        ({"training.epochs": None}, "training.epochs = None is not allowed."),
        ({"training.clip": float("inf")}, "training.clip = inf is not allowed."),
        ({"optimizer.learning_rate": "1"}, "optimizer nt_asgd.learning_rate = '1' is not allowed."),
        ({"corpus.level": "wrod"}, "Did you mean 'word'?"),
        ({"backbone.units": [12, "8"]}, "units = [12, '8'] is not allowed."),
        (
            {"backbone.units[2]": 3, "backbone.units": [1]},
            "elements [0, 2]. Indices must",
        ),
        ({"backbone.units[x]": 3}, "'backbone.units[x]' is not a field. Elements read 'units[0]'."),
        ({"head": "dco"}, "here: unknown head 'dco'. Did you mean 'doc'?"),
        ({"regularizer.weight_dorp.rate": 1}, "here: unknown regularizer 'weight_dorp'."),
        ({"regularizer.weight_dorp": 1}, "here: unknown regularizer 'weight_dorp'."),
        (
            {"regularizer.embedding_dropout": 0.5},
            "here: regularizer.embedding_dropout = 0.5 is not allowed. Expected: a field, "
            "one of 'regularizer.embedding_dropout.rate', 'regularizer.embedding_dropout.per_row'. "
            "Did you mean 'regularizer.embedding_dropout.rate'?",
        ),
        (
            {"regularizer": "embedding_dropout"},
            "here: regularizer = 'embedding_dropout' is not allowed. Expected: a field, one of "
            "'regularizer.embedding_dropout.rate', 'regularizer.embedding_dropout.per_row', which "
            "switches it on beside others, or 'none'.",
        ),
        ({"regularizer": "weight_dorp"}, "unknown regularizer 'weight_dorp'. Did you mean 'weight"),
        ({"regularizer.l2": "decoupled"}, "Did you mean 'regularizer.l2.mode'?"),
        ({"regularizer.dropout": "nonsense"}, "here: regularizer.dropout = 'nonsense' is not"),
        (
            {"evaluator.dynamic": 5},
            "here: evaluator.dynamic = 5 is not allowed. Expected: a field, one of ",
        ),
        ({"evaluator.dynamic": {}}, "or evaluator = 'dynamic' for its defaults."),
    ],
)
def test_errors_name_the_wrong_value_and_its_location(values: dict[str, Any], message: str):
    assert message in refused({**SMALL, **values})


@pytest.mark.parametrize(
    ("slot", "name", "instead"),
    [
        ("backbone", "rwkv7", "'gated_delta' or 'mamba2'"),
        ("schedule", "linear", "'warmup_stable_decay' with schedule.share = 1"),
    ],
)
def test_a_technique_that_was_removed_says_what_to_choose(slot: str, name: str, instead: str):
    assert f"there is no {slot} '{name}' now. Instead: {instead}" in refused({**SMALL, slot: name})


def test_an_evaluator_is_chosen_by_name_without_a_field():
    chosen = resolve({**SMALL, "evaluator": "dynamic"}).listed["evaluator"]
    assert [choice.name for choice in chosen] == ["dynamic"]


@pytest.mark.parametrize("slot", ["backbone", "head", "optimizer"])
def test_a_slot_without_a_technique_is_named(slot: str):
    values = {key: v for key, v in SMALL.items() if key.split(".")[0] != slot}
    assert f"here: no {slot} was chosen. Expected one of: " in refused(values)


@dataclass(frozen=True, kw_only=True)
class Needy:
    rate: float = fields.setting(doc="a field without a default", low=0)


def test_a_required_field_is_named():
    with pytest.raises(ConfigError, match="here: the field 'rate' is required and was not given"):
        fields.build(Needy, {}, "here")
    assert fields.build(Needy, {"rate": 1}, "here").rate == 1.0


@pytest.mark.parametrize("value", ["c", True, None, ["a"]])
def test_a_setting_of_a_few_values_takes_no_others(value: Any):
    """A stranger's way to write it once ended in a traceback."""
    few = Literal["a", 1] | None if value is not None else Literal["a", 1]
    assert fields.check_value("a", few, "kind") == "a" and fields.check_value(1, few, "kind") == 1
    with pytest.raises(ConfigError, match=r"^kind = .* is not allowed. Expected: 'a' or 1"):
        fields.check_value(value, few, "kind")
