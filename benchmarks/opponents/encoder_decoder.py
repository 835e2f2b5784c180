"""An encoder-decoder with attention as one would write it: torch's modules, padding, no trick."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

IGNORED = -100


class EncoderDecoder(nn.Module):
    """Two bidirectional layers, two layers, Luong's attention, a tied softmax."""

    def __init__(self, source_words: int, words: int, size: int, dropout: float) -> None:
        super().__init__()
        self.source = nn.Embedding(source_words, size)
        self.target = nn.Embedding(words, size)
        self.encoder = nn.LSTM(size, size // 2, 2, bidirectional=True, dropout=dropout)
        self.decoder = nn.LSTM(size, size, 2, dropout=dropout)
        self.start = nn.ModuleList(nn.Linear(size, size) for _ in range(4))
        self.score = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.bias = nn.Parameter(torch.zeros(words))
        self.dropout = nn.Dropout(dropout)

    def forward(self, source_SB: Tensor, lengths_B: Tensor, inputs_TB: Tensor) -> Tensor:
        """The logits of every position of the padded targets."""
        packed = pack_padded_sequence(self.source(source_SB), lengths_B, enforce_sorted=False)
        outputs, (h, _) = self.encoder(packed)
        memory_SBM = self.dropout(pad_packed_sequence(outputs)[0])
        sentence_BM = torch.cat((h[-2], h[-1]), -1)
        h1, c1, h2, c2 = (layer(sentence_BM).tanh() for layer in self.start)
        state = (torch.stack((h1, h2)), torch.stack((c1, c2)))
        decoded_TBH = self.dropout(self.decoder(self.target(inputs_TB), state)[0])
        scores_BTS = torch.bmm(self.score(decoded_TBH).transpose(0, 1), memory_SBM.permute(1, 2, 0))
        filling_BS = torch.arange(len(source_SB))[None] >= lengths_B[:, None]
        weights = scores_BTS.masked_fill(filling_BS[:, None], float("-inf")).softmax(-1)
        context_TBM = torch.bmm(weights, memory_SBM.transpose(0, 1)).transpose(0, 1)
        attended = self.combine(torch.cat((context_TBM, decoded_TBH), -1)).tanh()
        return F.linear(self.dropout(attended), self.target.weight, self.bias)

    def loss(
        self, source_SB: Tensor, lengths_B: Tensor, inputs_TB: Tensor, targets_TB: Tensor
    ) -> Tensor:
        logits = self(source_SB, lengths_B, inputs_TB)
        return F.cross_entropy(logits.flatten(0, 1), targets_TB.flatten(), ignore_index=IGNORED)
