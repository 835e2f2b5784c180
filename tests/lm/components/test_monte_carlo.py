"""Monte-Carlo dropout: means of probabilities, over masks that are drawn as in training."""

from __future__ import annotations

import numpy as np
import torch

from ablate.config.streams import Streams
from ablate.lm.components.evaluator.monte_carlo import MonteCarlo, MonteCarloConfig
from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.mixture import log_probs

STREAM = torch.randint(0, 23, (30,), generator=torch.Generator().manual_seed(4))
DROPPED = {
    "regularizer.variational_dropout.hidden": 0.5,
    "regularizer.variational_dropout.output": 0.3,
    "regularizer.weight_drop.rate": 0.4,
}


def judged(text, assemblies, **config):
    regularizers = [assembly.regularizers for assembly in assemblies]
    models = [assembly.model for assembly in assemblies]
    reading = Reading(models, text(STREAM), regularizers=regularizers)
    return MonteCarlo(MonteCarloConfig(**config)).token_log_probs(reading, "test")


def test_it_is_the_mean_probability_over_samples(build, text):
    """By hand: each sample reads all of the stream, with fresh masks in every window of 8."""
    assembly = build(DROPPED)
    actual = judged(text, [assembly], samples=5, window=8, seed=3)
    total = np.zeros(29)
    for sample in range(5):
        state, parts = assembly.model.initial_state(1), []
        for number, start in enumerate(range(0, 29, 8)):
            ids = STREAM[start : min(start + 8, 29), None]
            chance = Chance(Streams(3), update=number, twin=sample)
            with torch.no_grad():
                passed = assembly.model(ids, state, Masks(assembly.regularizers, chance))
            state = passed.state
            parts.append(log_probs(passed.mixture).exp())
        total += torch.cat(parts)[range(29), STREAM[1:]].detach().numpy()
    np.testing.assert_allclose(np.exp(actual), total / 5, rtol=1e-12)


def test_without_masks_it_is_the_plain_evaluation(build, judged):
    model = build({}).model
    actual = judged(MonteCarlo(MonteCarloConfig(samples=3, temperature=0.7)), [model], STREAM)
    plain = judged(Standard(StandardConfig(temperature=0.7)), [model], STREAM)
    np.testing.assert_allclose(actual, plain, rtol=1e-12)


def test_a_techniques_own_dropout_is_sampled_as_well(build, text):
    """`Masks.dropout` draws with and without regularizers."""
    assembly = build({})
    head = assembly.model.head.forward

    def dropped(features, embedding, masks):
        mixture = head(features, embedding, masks)
        vectors = masks.dropout("head/mine", mixture.vectors_NJE, 0.5)
        return type(mixture)(**{**mixture.__dict__, "vectors_NJE": vectors})

    before = judged(text, [assembly], samples=1)
    assembly.model.head.forward = dropped
    assert not np.isclose(judged(text, [assembly], samples=1), before).all()


def test_each_model_is_sampled_with_its_own_regularizers(build, text):
    both = [build(DROPPED, seed=1), build({}, seed=2)]
    single = [judged(text, [assembly], samples=3) for assembly in both]
    actual = judged(text, both, samples=3)
    np.testing.assert_allclose(np.exp(actual), np.exp(single).mean(0), rtol=1e-12)


def test_of_one_trial_every_temperature_is_another_evaluation(build, text):
    """Finished samples are kept by name, also for `tempered`, which asks at several."""
    assembly = build(DROPPED)
    reading = Reading([assembly.model], text(STREAM), regularizers=[assembly.regularizers])
    hot, cold, again = (
        MonteCarlo(MonteCarloConfig(samples=2, temperature=t)).token_log_probs(reading, "test")
        for t in (2.0, 1.0, 2.0)
    )
    assert not np.isclose(hot, cold).all()
    np.testing.assert_array_equal(hot, again)
