"""The LSTM encoder, against torch's bidirectional LSTM over packed sentences."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.encoder.lstm import LstmEncoder, LstmEncoderConfig
from ablate.lm.model.flow import Shapes
from ablate.lm.model.masks import OFF, Chance, Masks
from ablate.lm.testing import SmallModel

INPUTS, UNITS, LAYERS = 5, 6, 2
LENGTHS = (4, 1, 6)
SHAPES = Shapes(vocabulary=0, embedding=INPUTS)
OF_TORCH = {"ahead": "", "back": "_reverse"}


def drawn(**settings) -> LstmEncoder:
    encoder = LstmEncoder(LstmEncoderConfig(units=UNITS, num_layers=LAYERS, **settings), SHAPES)
    for path, module in encoder.named_modules():
        if path and hasattr(module, "initialize"):
            module.initialize(lambda name, path=path: Streams(1).generator(f"{path}.{name}"))
    return encoder.double()


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    x_SBE = torch.randn(6, 3, INPUTS, dtype=torch.float64)
    real_SB1 = (torch.arange(6)[:, None] < torch.tensor(LENGTHS)).double()[..., None]
    return x_SBE, real_SB1


def test_it_is_torchs_bidirectional_lstm_over_packed_sentences():
    encoder, (x_SBE, real_SB1) = drawn(), sentences()
    theirs = nn.LSTM(INPUTS, UNITS // 2, LAYERS, bidirectional=True).double()
    for number, layer in enumerate(encoder.layers):
        for name, end in OF_TORCH.items():
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                ours = layer[name].get_parameter(f"{kind}_l0")
                theirs.get_parameter(f"{kind}_l{number}{end}").data.copy_(ours)
    packed = pack_padded_sequence(x_SBE, torch.tensor(LENGTHS), enforce_sorted=False)
    expected, (h_n, _) = theirs(packed)
    vectors_SBM, sentence_1BM = encoder(x_SBE, real_SB1, OFF)
    torch.testing.assert_close(vectors_SBM * real_SB1, pad_packed_sequence(expected)[0])
    torch.testing.assert_close(sentence_1BM[0], torch.cat((h_n[-2], h_n[-1]), -1))


def test_one_direction_is_a_plain_lstm():
    encoder, (x_SBE, real_SB1) = drawn(bidirectional=False), sentences()
    vectors_SBM, sentence_1BM = encoder(x_SBE, real_SB1, OFF)
    assert vectors_SBM.shape == (6, 3, UNITS)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(sentence_1BM[0, row], vectors_SBM[length - 1, row])


def test_an_odd_number_of_units_cannot_be_shared():
    with pytest.raises(CombinationError, match=r"encoder.units = 7 .* an even number"):
        LstmEncoder(LstmEncoderConfig(units=7), SHAPES)


def test_shared_words_need_one_vocabulary():
    with pytest.raises(CombinationError, match=r"corpus.joint = false"):
        SmallModel({}, {"encoder.share_words": True}, pairs=True)


def test_its_masks_are_its_own():
    """The encoder's dropout draws other masks than the decoder's, and in each layer others."""
    values = {"regularizer.weight_drop.rate": 0.5}
    small = SmallModel({}, values, pairs=True)
    seen: list[str] = []
    regularizer = small.regularizers[0]
    weight = regularizer.weight

    def noticed(name, tensor, chance):
        seen.append(f"{chance.side}/{name}")
        return weight(name, tensor, chance)

    regularizer.weight = noticed
    small.run(Masks(small.regularizers, Chance(Streams(1), 0)))
    assert len(seen) == len(set(seen)) == 2 * 2 + 2


def test_masks_of_each_gate_have_the_rate_of_what_the_layer_reads(monkeypatch):
    """The first layer reads word vectors, the second the first layer's output."""
    rates = {"input": 0.11, "hidden": 0.22, "output": 0.33, "recurrent": 0.44}
    values = {f"regularizer.variational_dropout.{site}": rate for site, rate in rates.items()}
    small = SmallModel(
        {},
        {**values, "regularizer.variational_dropout.gate_masks": "per_gate"},
        pairs=True,
    )
    drawn_rates, keep = {}, Chance.keep

    def note(self, purpose, shape, rate, like):
        drawn_rates[f"{self.side}{purpose}"] = rate
        return keep(self, purpose, shape, rate, like)

    monkeypatch.setattr(Chance, "keep", note)
    small.run(Masks(small.regularizers, Chance(Streams(1), 0)))
    of_gates = {
        site: rate for site, rate in drawn_rates.items() if "encoder" in site and "gates" in site
    }
    first = {rate for site, rate in of_gates.items() if "encoder/1" in site}
    second = {rate for site, rate in of_gates.items() if "encoder/2" in site}
    assert (first, second) == ({0.11}, {0.22})
