"""Masks at sites that a backbone has not are refused, and each says truly which it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.config import registry
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.model.assemble import assemble, count_parameters
from ablate.lm.model.masks import Chance, Masks, SiteRecorder
from ablate.lm.model.sites import sites_of
from ablate.lm.testing import SmallModel
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search


@pytest.mark.parametrize("name", [name for name in registry.names("backbone") if sites_of(name)])
def test_a_backbone_asks_at_all_sites_that_it_names(name):
    """In a model of two layers, if it can have two."""
    layers = {"backbone.num_layers": 2} if "hidden" in sites_of(name) else {}
    small, recorder = SmallModel({"backbone": name}, layers), SiteRecorder()
    small.run(Masks((recorder,), Chance(Streams(1), 0)))
    assert recorder.sites - {"input", "words"} == sites_of(name)


def config_of(backbone, **regularizers):
    chosen = {"backbone": backbone, "backbone.units": 8, "embedding.size": 8, "head": "softmax"}
    own = {f"regularizer.{name}": value for name, value in regularizers.items()}
    return resolve({"optimizer": "sgd", **chosen, **own})


@pytest.mark.parametrize(
    ("backbone", "setting", "able"),
    [
        ("transformer", "weight_drop.rate", "elman"),
        ("transformer", "variational_dropout.recurrent", "lstm"),
        ("feed_forward", "weight_drop.rate", "rhn"),
        ("feed_forward", "dropout.hidden", "transformer"),
        ("rhn", "variational_dropout.hidden", "transformer"),
    ],
)
def test_a_mask_that_nothing_asks_for_is_refused_before_training(backbone, setting, able):
    with pytest.raises(CombinationError) as refused:
        count_parameters(config_of(backbone, **{setting: 0.25}), 23)
    said = str(refused.value)
    assert f"regularizer.{setting} = 0.25 acts on" in said and f"'{backbone}' asks for no" in said
    others = said.partition("backbones that ask: ")[2]
    assert able in others and f" {backbone}" not in others
    assert count_parameters(config_of(backbone, **{setting: 0.0}), 23) > 0


def study_of(**arms):
    """The recipe of a mixture for all arms, and what each changes."""
    base = {
        "corpus.train_tokens": 500,
        "backbone": "lstm",
        "head": "mos",
        "regularizer.dropout.latent": 0.3,
        "optimizer": "sgd",
    }
    design = table(Arm("base"), *(Arm(name, changes) for name, changes in arms.items()))
    scales = {"s": Scale(seeds=1)}
    return Study(question="Which?", base=base, base_arm="base", design=design, scales=scales)


def test_an_arm_that_states_a_mask_of_another_head_is_refused(data):
    stated = {"head": "softmax", "regularizer.variational_dropout.latent": 0.2}
    with pytest.raises(CombinationError) as refused:
        make_plan(study_of(stated=stated), data=data)
    said = str(refused.value)
    assert "arm 'stated': regularizer.variational_dropout.latent = 0.2 acts on the vectors" in said
    assert "head 'softmax' asks for no mask there" in said and "ask: doc, mlp, mos." in said


def test_an_arm_that_has_it_from_what_all_arms_share_or_whose_head_asks_is_not(data, monkeypatch):
    shared, off = {"head": "softmax"}, {"head": "softmax", "regularizer.dropout.latent": 0.0}
    asks = {"head": "doc", "head.experts": (2,), "regularizer.dropout.latent": 0.1}
    assert len(make_plan(study_of(shared=shared, off=off, asks=asks), data=data).trials) == 4
    monkeypatch.setattr(registry.get("head", "softmax").build, "sites", None)
    unsaid = {"head": "softmax", "regularizer.dropout.latent": 0.1}
    assert len(make_plan(study_of(unsaid=unsaid), data=data).trials) == 2


def test_a_search_may_choose_the_head(data):
    latent = {"regularizer.dropout.latent": 0.1}
    space = {"Head": {"field": "head", "choices": ["softmax", "mos"]}}
    searched = {"s": Scale(seeds=1, search=Search(space=space, trials=2))}
    free = study_of(own=latent)
    free = replace(free, scales=searched, base={**free.base, "head": "softmax"})
    assert len(make_plan(free, data=data).searches) == 2
    with pytest.raises(CombinationError, match="arm 'own'"):
        make_plan(replace(free, scales={"s": Scale(seeds=1)}), data=data)


@pytest.mark.parametrize("name", registry.names("head"))
def test_a_head_asks_at_all_sites_that_it_names(name):
    asked = []
    for head in (name, "softmax"):
        recorder = SiteRecorder()
        SmallModel({"head": head}).run(Masks((recorder,), Chance(Streams(1), 0)))
        asked.append(recorder.sites)
    assert asked[0] - asked[1] == sites_of(name, "head")


def test_what_another_arm_may_need_is_not_refused():
    """The head's site, layers of which there is one, and a model that is rebuilt."""
    for setting in ("dropout.latent", "dropout.hidden"):
        one = {"backbone": "lstm", "backbone.num_layers": 1, f"regularizer.{setting}": 0.1}
        config = resolve({"optimizer": "sgd", "head": "softmax", "embedding.size": 8, **one})
        assert count_parameters(config, 23) > 0
    recorded = config_of("feed_forward", **{"weight_drop.rate": 0.25})
    assert assemble(recorded, 23).model.backbone is not None
