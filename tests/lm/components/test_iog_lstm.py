"""The gate with a memory against an LSTM stepped by hand, and its published size."""

from __future__ import annotations

import torch

from ablate.config.streams import Streams
from ablate.lm.components.gate.iog import IogConfig
from ablate.lm.components.gate.iog_lstm import IogLstm
from ablate.lm.model.flow import Shapes
from ablate.lm.model.masks import OFF


def made(units: int = 3, vocabulary: int = 7) -> IogLstm:
    gate = IogLstm(IogConfig(units=units), Shapes(vocabulary=vocabulary, embedding=1))
    for index, parameter in enumerate(gate.parameters()):
        parameter.data.uniform_(-1, 1, generator=Streams(1).generator(str(index)))
    return gate.double()


def by_hand(gate: IogLstm, ids_TB, h, c):
    """Eq. 11-12, step by step."""
    outputs = []
    for ids_B in ids_TB:
        z = gate.embedding.weight[ids_B] @ gate.memory.weight_ih.t()
        z = z + h @ gate.memory.weight_hh.t() + gate.memory.bias
        i, f, g, o = z.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.cat(outputs), h, c


def test_it_is_the_formula_and_carries_its_state(make_features):
    gate, (state_h, state_c) = made(), torch.rand(2, 1, 2, 3, dtype=torch.float64)
    ids_TB = torch.tensor([[0, 3], [6, 6], [2, 1], [0, 5]])
    features = make_features(4, 2, 1, (1,))
    features = features.__class__(**{**features.__dict__, "ids_TB": ids_TB})
    signal, (h, c) = gate(features, (state_h, state_c), OFF)
    vectors, expected_h, expected_c = by_hand(gate, ids_TB, state_h[0], state_c[0])
    close = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(signal.vectors_NG, vectors, **close)
    torch.testing.assert_close(h[0], expected_h, **close)
    torch.testing.assert_close(c[0], expected_c, **close)
