"""Letters against loops over windows, the filling, highway layers, and the published sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.words.characters import END, EOS, FILLING, START, UNKNOWN, symbols_of
from ablate.lm.model.assemble import assemble, count_parameters
from ablate.lm.model.mixture import log_probs
from ablate.space import space

WORDS = ["<unk>", "cat", "a", "<eos>", "tact", "act"]
VALUES = {
    "backbone": "lstm",
    "backbone.units": 5,
    "head": "softmax",
    "optimizer": "sgd",
    "embedding.size": 5,
    "embedding.initial_range": 0.8,
    "words": "characters",
    "words.widths": (1, 3),
    "words.features": (2, 3),
    "words.character_size": 4,
    "words.symbols": 8,
    "words.highway": 2,
}


@dataclass
class Letters:
    """A text of which only the vocabulary matters."""

    vocabulary: list[str] = field(default_factory=lambda: WORDS)
    eos: int | None = 3
    separators: tuple[int, ...] = ()

    @property
    def num_words(self) -> int:
        return len(self.vocabulary)


def built(text=None, **settings):
    text = text or Letters()
    config = resolve({**VALUES, **{name.replace("_", ".", 1): v for name, v in settings.items()}})
    assembly = assemble(config, text.num_words, text=text)
    assembly.model.initialize(Streams(1))
    return assembly.model.double()


def by_hand(words, symbols):
    """A word's vector from its symbols, window by window."""
    named = {name: p.detach().numpy() for name, p in words.named_parameters()}
    columns = np.stack([named["vectors"][s] for s in symbols], 1)
    y = []
    for width in words.config.widths:
        weight, bias = named[f"weight_width_{width}"], named[f"bias_width_{width}"]
        windows = range(columns.shape[1] - width + 1)
        products = [(weight * columns[:, at : at + width]).sum((1, 2)) + bias for at in windows]
        y.append(np.tanh(products).max(0))
    y = np.concatenate(y)
    for layer in range(1, words.config.highway + 1):
        weight, bias = named[f"weight_highway_{layer}"], named[f"bias_highway_{layer}"]
        (h, t), size = (weight @ y + bias).reshape(2, -1), len(y)
        assert len(h) == size
        t = 1 / (1 + np.exp(-(t - 2)))
        y = t * np.maximum(h, 0) + (1 - t) * y
    return y


def test_a_word_is_its_letters_between_two_marks():
    """Letters are numbered after the five symbols that are none, in the order of the alphabet."""
    a, c, t = 5, 6, 7
    assert symbols_of(Letters(), 65) == [
        [START, UNKNOWN, END],
        [START, c, a, t, END],
        [START, a, END],
        [START, EOS, END],
        [START, t, a, c, t, END],
        [START, a, c, t, END],
    ]
    assert symbols_of(Letters(), 2)[4] == [START, t, a, END]


def test_it_is_the_formula():
    """The longest word has six symbols; the others are filled, and maxima are over the filling."""
    model = built()
    symbols = symbols_of(Letters(), 65)
    full = [word + [FILLING] * (6 - len(word)) for word in symbols]
    expected = np.stack([by_hand(model.embedding, word) for word in full])
    actual = model.embedding.matrix().detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    ids = torch.tensor([[4, 1], [1, 3], [1, 0]])
    vectors = model.embedding(ids)
    torch.testing.assert_close(vectors, torch.from_numpy(expected)[ids])


def test_the_filling_stays_0():
    """Its gradient is 0, so no optimizer moves it."""
    words = built().embedding
    assert not words.vectors[FILLING].any()
    words(torch.tensor([[2, 3]])).sum().backward()
    assert not words.vectors.grad[FILLING].any()
    assert words.vectors.grad[START].any()


@pytest.mark.parametrize("head", ["softmax", "mos"])
def test_a_tied_head_reads_the_vectors_of_all_words(head):
    model = built(head=head, head_tied=True)
    ids = torch.tensor([[1, 2], [4, 0]])
    passed = model(ids, model.initial_state(2))
    torch.testing.assert_close(passed.mixture.weight_VE, model.embedding.matrix())
    log_probs(passed.mixture)[:, 5].sum().backward()
    assert model.embedding.weight_width_3.grad.any()


def test_words_that_do_not_occur_are_not_computed(monkeypatch):
    model, computed = built(head_tied=False), []
    convolve = F.conv1d
    monkeypatch.setattr(
        F, "conv1d", lambda x, *layer: computed.append(len(x)) or convolve(x, *layer)
    )
    ids = torch.tensor([[1, 2], [1, 1]])
    passed = model(ids, model.initial_state(2))
    assert computed == [2, 2], "two words at each of two widths"
    assert len(model.words_for(model.head)) == 0
    assert torch.isfinite(log_probs(passed.mixture)).all()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"words_symbols": 7}, r"the text has 8: .* Instead: words\.symbols = 8"),
        ({"words_features": (2, 4)}, r"Instead: embedding\.size = 6"),
        ({"words_widths": (1, 2, 3)}, "as many numbers"),
        ({"words_widths": (3, 3)}, "each width once"),
    ],
)
def test_what_does_not_fit_is_refused(settings, problem):
    with pytest.raises(CombinationError, match=problem):
        built(**settings)


def test_a_table_leaves_no_trace():
    values = {name: v for name, v in VALUES.items() if not name.startswith("words")}
    plain, named = resolve(values), resolve({**values, "words": "table"})
    assert plain == named
    assert "words" not in plain.identity
    assert not any(name.startswith("words") for name in plain.flat)
    letters = resolve(VALUES)
    assert letters.identity["words"]["name"] == "characters"
    assert resolve(letters.flat) == letters


@pytest.mark.parametrize(("size", "expected"), [("small", 5_312_515), ("large", 19_373_165)])
def test_the_published_sizes(size, expected):
    assert count_parameters(resolve(space.load("kim2016").values(size)), 10_000) == expected
