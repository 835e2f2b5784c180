"""FRAGE: both players' gradients by hand, and word vectors that stop telling frequencies."""

from __future__ import annotations

import torch

from ablate.lm.components.regularizer.frage import Discriminator, frequent_words
from ablate.lm.model.language_model import num_parameters
from ablate.lm.testing.subject import VOCABULARY, WIDTH, SmallModel

WEIGHT = "regularizer.frage.weight"
ON = {WEIGHT: 0.3, "regularizer.frage.frequent": 0.5, "regularizer.frage.rate": 0.2}


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def linear(direction_E):
    """A discriminator whose hidden unit is never cut off: its score is that of a linear one."""
    made = Discriminator(len(direction_E), 1, None).double()
    values = {"hidden.weight": direction_E[None], "hidden.bias": [50.0], "score.weight": [[2.0]]}
    for name, value in {**values, "score.bias": [-100.0]}.items():
        made.get_parameter(name).data = torch.as_tensor(value, dtype=torch.float64)
    return made


def test_the_most_frequent_words_and_of_equals_the_first():
    counts = torch.tensor([3, 9, 3, 1, 3])
    assert frequent_words(counts, 0.4).tolist() == [True, True, False, False, False]
    assert frequent_words(counts, 0.6).tolist() == [True, True, True, False, False]
    assert frequent_words(counts, 0.0).tolist() == [False, True, False, False, False]
    assert frequent_words(counts, 1.0).tolist() == [True, True, True, False, True]


def test_word_vectors_climb_the_loss_of_a_logistic_discriminator():
    """With score 2 w'e: d CE / d e = -(1 - f) 2w / |P| of a frequent word, f 2w / |U| of others."""
    small = SmallModel({}, ON)
    E_VE, regularizer = small.model.embedding.weight, small.regularizers[0]
    frequent = frequent_words(small.text.counts(), 0.5)
    w = drawn(WIDTH)
    regularizer.discriminator = linear(w)
    regularizer.discriminator.frequent_V = frequent
    regularizer.penalty(small.run(), small.model).backward()
    with torch.no_grad():
        f = (E_VE @ (2 * w)).sigmoid()
        slope = torch.where(frequent, (f - 1) / frequent.sum(), f / (~frequent).sum())
        torch.testing.assert_close(E_VE.grad, -0.3 * slope[:, None] * 2 * w)
        before = regularizer.discriminator.loss(E_VE)
        assert regularizer.discriminator.loss(E_VE - 0.1 * E_VE.grad) > before


def test_the_discriminator_descends_it_as_torch_would_and_moves_nothing_else():
    small = SmallModel({}, ON)
    regularizer, model = small.regularizers[0], small.model
    own = regularizer.discriminator
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    other = Discriminator(WIDTH, WIDTH, own.frequent_V).double()
    other.load_state_dict(own.state_dict())
    optimizer = torch.optim.SGD(other.requires_grad_(True).parameters(), lr=0.2)
    other.loss(model.embedding.weight.detach()).backward()
    optimizer.step()
    regularizer.project(model)
    for name, parameter in own.named_parameters():
        torch.testing.assert_close(parameter, other.get_parameter(name))
        assert not torch.equal(parameter, before[f"auxiliary.frage.{name}"])
    rest = [name for name in before if not name.startswith("auxiliary.")]
    assert all(torch.equal(before[name], model.get_parameter(name)) for name in rest)
    assert not any(p.requires_grad or p.grad is not None for p in own.parameters())


def test_its_parameters_are_not_counted_and_the_models_are_drawn_as_before():
    small, without = SmallModel({}, {WEIGHT: 0.1, "regularizer.frage.units": 5}), SmallModel({})
    own = sum(p.numel() for p in small.model.auxiliary.parameters())
    assert own == 5 * WIDTH + 5 + 5 + 1
    assert num_parameters(small.model) == num_parameters(without.model)
    assert small.regularizers[0].discriminator.frequent_V.sum() == round(0.2 * VOCABULARY)
    started = small.model.state_dict()
    for name, weight in without.model.state_dict().items():
        assert torch.equal(started[name], weight)
