"""What every evaluator owes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate import registry
from ablate.components.evaluator import Reading
from ablate.errors import CombinationError

GIVING = [
    n for n in registry.names("evaluator") if registry.get("evaluator", n).build.gives_log_probs
]
OTHERS = sorted({*registry.names("evaluator")} - {*GIVING})


def judged(technique, models, text):
    """By a technique at its defaults, beside the plain evaluation that it may build on."""
    plain = registry.get("evaluator", "standard")
    built = {t.name: t.build(t.config()) for t in (plain, technique)}
    return Reading(models, text, built).log_probs(technique.name, "test")


@pytest.mark.parametrize("name", GIVING)
def test_it_gives_every_token_but_the_first_and_leaves_the_model_alone(small, name):
    technique = registry.get("evaluator", name)
    given = small(dtype=torch.float32)
    model = given.model
    before = {k: v.clone() for k, v in model.state_dict().items()}
    found, again = (judged(technique, [model], given.text) for _ in range(2))
    assert found.dtype == np.float64
    assert found.shape == (39,)
    assert np.isfinite(found).all()
    assert (found <= 0).all()
    np.testing.assert_array_equal(found, again)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", GIVING)
def test_it_judges_several_models_together(small, name):
    technique = registry.get("evaluator", name)
    given = small()
    one, twice = (judged(technique, [given.model] * n, given.text) for n in (1, 2))
    np.testing.assert_allclose(one, twice, rtol=1e-9)


@pytest.mark.parametrize("name", registry.names("evaluator"))
def test_its_metrics_are_finite_and_the_same_again(small, name):
    technique = registry.get("evaluator", name)
    given = small(dtype=torch.float32)
    before = {k: v.clone() for k, v in given.model.state_dict().items()}
    plain = registry.get("evaluator", "standard")
    built = {t.name: t.build(t.config()) for t in (plain, technique)}
    found, again = (
        built[name].metrics(Reading([given.model], given.text, built), name, "test")
        for _ in range(2)
    )
    assert found
    assert found == again
    assert all(np.isfinite(value) for value in found.values())
    assert all(torch.equal(before[k], v) for k, v in given.model.state_dict().items())


@pytest.mark.parametrize("name", OTHERS)
def test_one_that_judges_no_tokens_says_so(small, name):
    technique = registry.get("evaluator", name)
    with pytest.raises(CombinationError, match=name):
        judged(technique, [small().model], small().text)
