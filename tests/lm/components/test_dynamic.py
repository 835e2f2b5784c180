"""Dynamic evaluation against its rules written out, parameter by parameter, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.evaluator.dynamic import Dynamic, DynamicConfig
from ablate.lm.model.evaluator import Reading

WORDS = 23


class Splits:
    """A training text, and texts to evaluate."""

    def __init__(self, num_train: int = 207, num_test: int = 33, num_valid: int = 21) -> None:
        chance = torch.Generator().manual_seed(4)
        self.train = torch.randint(0, WORDS, (num_train,), generator=chance)
        self.test = torch.randint(0, WORDS, (num_test,), generator=chance)
        self.valid = torch.randint(0, WORDS, (num_valid,), generator=chance)

    def stream(self, split):
        return getattr(self, split)


def distributions(model, inputs_TB, state, temperature):
    """Written out for one softmax: an LSTM layer by its gates, then the logits."""
    parameters = {name.rpartition(".")[2]: p for name, p in model.named_parameters()}
    h, c = (tensor[0] for tensor in state)
    parts = []
    for ids_B in inputs_TB:
        x = model.embedding.weight[ids_B]
        gates = x @ parameters["weight_ih_l0"].T + parameters["bias_ih_l0"]
        gates = gates + h @ parameters["weight_hh_l0"].T + parameters["bias_hh_l0"]
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        decoder = model.head.decoder
        logits = (h @ decoder.weight.T + decoder.bias) / temperature
        parts.append(logits - logits.exp().sum(-1, keepdim=True).log())
    return torch.stack(parts), (h.detach()[None], c.detach()[None])


class Reference:
    """A straightforward loop: every window forward, its mean loss backward, then the rule."""

    def __init__(self, model, temperature=1.0):
        self.model, self.temperature = model, temperature
        self.parameters = list(model.parameters())
        self.start = [p.detach().clone() for p in self.parameters]

    def windows(self, rows_TB, window):
        state = self.model.initial_state(rows_TB.shape[1])
        for at in range(0, len(rows_TB) - 1, window):
            targets = rows_TB[at + 1 : at + 1 + window]
            inputs = rows_TB[at : at + len(targets)]
            log_p, state = distributions(self.model, inputs, state, self.temperature)
            picked = log_p.gather(-1, targets[..., None])[..., 0]
            self.model.zero_grad()
            (-picked.mean()).backward()
            yield picked.detach().flatten()

    def root_mean_squares(self, stream, rows, window):
        length = len(stream) // rows
        rows_TB = stream[: rows * length].view(rows, length).T
        total, segments = [0.0] * len(self.parameters), 0
        for at, _ in zip(range(0, length - 2, window), self.windows(rows_TB, window), strict=False):
            assert at < length - 2
            total = [s + p.grad**2 for s, p in zip(total, self.parameters, strict=True)]
            segments += 1
        return [(s / segments).sqrt() for s in total], segments

    def follow(self, stream, window, step):
        parts = []
        for log_p in self.windows(stream[:, None], window):
            parts.append(log_p)
            with torch.no_grad():
                step()
        with torch.no_grad():
            for parameter, start in zip(self.parameters, self.start, strict=True):
                parameter.copy_(start)
        self.model.zero_grad(set_to_none=True)
        return torch.cat(parts).numpy()


def judged(config, model, text):
    return Dynamic(DynamicConfig(**config)).token_log_probs(Reading([model], text), "test")


@pytest.fixture
def one_layer(build):
    return build({"backbone.num_layers": 1, "head.tied": False}).model


@pytest.mark.parametrize(
    ("scaling", "decay", "num_train", "window"),
    [
        ("current", 0.0, 207, 5),
        ("current", 0.3, 88, 5),
        ("current", 40.0, 84, 9),  # so large that it is cut at 1
        ("old", 0.3, 84, 9),
        ("old", 40.0, 207, 5),
    ],
)
def test_the_rms_rule(one_layer, scaling, decay, num_train, window):
    """88 tokens leave a last segment of one step to be skipped, 84 a shorter one that counts."""
    text, eta, epsilon = Splits(num_train), 0.03, 0.01
    settings = {"learning_rate": eta, "decay": decay, "epsilon": epsilon, "scaling": scaling}
    actual = judged({**settings, "gradient_batch_size": 4, "window": window}, one_layer, text)
    reference = Reference(one_layer)
    rms, segments = reference.root_mean_squares(text.train, 4, window)
    mean = sum(float(m.mean()) for m in rms) / len(rms)
    if scaling == "old":  # sums in the place of means, as the first version of the public code
        rms = [m * math.sqrt(segments) for m in rms]
        mean = sum(float(m.mean()) for m in rms)

    def step():
        for parameter, start, m in zip(reference.parameters, reference.start, rms, strict=True):
            rate = m / mean
            if decay:
                rate = rate.clamp(max=1 / decay)
            back = decay * rate * (start - parameter)
            parameter += back - eta * parameter.grad / (m + epsilon)

    expected = reference.follow(text.test, window, step)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize("clip", [None, 0.0, 0.05])
def test_the_sgd_rule(one_layer, clip):
    text = Splits()
    actual = judged({"rule": "sgd", "learning_rate": 0.7, "clip": clip}, one_layer, text)
    reference = Reference(one_layer)

    def step():
        norm = math.sqrt(sum(float((p.grad**2).sum()) for p in reference.parameters))
        scale = min(1.0, clip / norm) if clip else 1.0
        for parameter in reference.parameters:
            parameter -= 0.7 * scale * parameter.grad

    expected = reference.follow(text.test, 5, step)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_a_parameters_share_of_the_rate_and_its_bounds_hold(build):
    """IRLM's r has a share of the rate and stays within its bounds, unlike W and Z."""
    values = {"backbone": "irlm", "backbone.units": 6, "backbone.recurrent_rate": 0.3}
    bounds = {"backbone.lowest": 0.4999, "backbone.highest": 0.5001, "head.tied": False}
    model = build({**values, **bounds, "head.bias": False}).model
    text, log_probs = Splits(), []
    config = {"rule": "sgd", "learning_rate": 0.4, "window": 3}
    actual = judged(config, model, text)
    names = ("embedding.weight", "backbone.r", "head.decoder.weight")
    w, r, z = (model.get_parameter(name).detach().clone().requires_grad_() for name in names)
    x, clamped = torch.zeros(6, dtype=torch.float64), 0
    for at in range(0, len(text.test) - 1, 3):
        losses = []
        for now, after in zip(text.test[at : at + 3], text.test[at + 1 : at + 4], strict=False):
            x = w[now] + r * x
            losses.append(-(z @ x).log_softmax(0)[after])
        log_probs += [-loss.item() for loss in losses]
        gradients = torch.autograd.grad(torch.stack(losses).mean(), (w, r, z))
        x = x.detach()
        with torch.no_grad():
            for parameter, gradient, share in zip((w, r, z), gradients, (1, 0.3, 1), strict=True):
                parameter -= 0.4 * share * gradient
            clamped += int(((r < 0.4999) | (r > 0.5001)).sum())
            r.clamp_(0.4999, 0.5001)
    assert clamped > 10
    np.testing.assert_allclose(actual, log_probs, rtol=1e-9)


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_the_nadam_rule(one_layer, beta1):
    """Dozat's, as Keras has it: momentum warms up by 0.96^(0.004 t)."""
    text, beta2, eta = Splits(), 0.999, 0.01
    settings = {"rule": "nadam", "learning_rate": eta, "beta1": beta1, "temperature": 1.2}
    actual = judged(settings, one_layer, text)
    reference = Reference(one_layer, temperature=1.2)
    m = [torch.zeros_like(p) for p in reference.parameters]
    v = [torch.zeros_like(p) for p in reference.parameters]
    clock = {"t": 0, "schedule": 1.0}

    def step():
        clock["t"] += 1
        t = clock["t"]
        now, after = (beta1 * (1 - 0.5 * 0.96 ** (0.004 * n)) for n in (t, t + 1))
        clock["schedule"] *= now
        for i, parameter in enumerate(reference.parameters):
            g = parameter.grad
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            m_hat = m[i] / (1 - clock["schedule"] * after)
            g_hat = g / (1 - clock["schedule"])
            mean = (1 - now) * g_hat + after * m_hat
            parameter -= eta * mean / ((v[i] / (1 - beta2**t)).sqrt() + 1e-7)

    expected = reference.follow(text.test, 5, step)
    np.testing.assert_allclose(actual, expected, rtol=1e-7)


def test_the_weights_may_follow_valid_before_test(one_layer):
    """Test starts with the weights from the end of valid; valid itself does not change."""
    text = Splits()
    config = {"rule": "sgd", "learning_rate": 0.7, "through_valid": True}
    actual = judged(config, one_layer, text)
    reference = Reference(one_layer)

    def step():
        for parameter in reference.parameters:
            parameter -= 0.7 * parameter.grad

    for _ in reference.windows(text.valid[:, None], 5):
        with torch.no_grad():
            step()
    expected = reference.follow(text.test, 5, step)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
    reading = Reading([one_layer], text)
    plain, through = (
        Dynamic(DynamicConfig(**{**config, "through_valid": through})).token_log_probs(
            reading, "valid"
        )
        for through in (False, True)
    )
    np.testing.assert_array_equal(plain, through)


def test_the_weights_are_put_back_bit_for_bit_even_after_an_error(one_layer, monkeypatch):
    text = Splits()
    before = {name: p.detach().clone() for name, p in one_layer.named_parameters()}
    config = {"rule": "nadam", "learning_rate": 0.5}
    judged(config, one_layer, text)
    forward, calls = one_layer.forward, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > 20:
            raise KeyboardInterrupt
        return forward(*arguments)

    monkeypatch.setattr(one_layer, "forward", failing)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(9):
            judged(config, one_layer, text)
    for name, parameter in one_layer.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None


def test_a_training_text_too_short_for_the_rows_is_told(one_layer):
    with pytest.raises(CombinationError, match=r"gradient_batch_size = 100 .* at most 69"):
        judged({}, one_layer, Splits())
