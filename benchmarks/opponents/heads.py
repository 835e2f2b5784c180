"""Output layers and losses the usual way: whole logits, whole distributions, autograd."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def softmax_loss(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of one softmax by torch's cross entropy."""
    return F.cross_entropy(F.linear(hidden, weight, bias), targets)


def softmax_loss_in_chunks(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """The same by torch's own fused product and loss, which never holds the whole logits."""
    options = torch.nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(hidden, weight, targets, linear_bias=bias, options=options)


def mixture_loss(
    latent: Tensor, prior_logits: Tensor, weight: Tensor, bias: Tensor, targets: Tensor
) -> Tensor:
    """The mean loss of a mixture of softmaxes: softmax each component, then mix.

    latent: [tokens, components, width]
    """
    tokens, components, width = latent.shape
    logits = F.linear(latent.reshape(-1, width), weight, bias)
    probabilities = logits.softmax(-1).view(tokens, components, -1)
    mixed = (probabilities * prior_logits.softmax(-1).unsqueeze(-1)).sum(1)
    return F.nll_loss(torch.log(mixed + 1e-8), targets)


def augmented_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    targets: Tensor,
    temperature: float,
    strength: float,
) -> Tensor:
    """Cross entropy plus the divergence from targets softened by the word vectors (Inan et al.)."""
    scores = F.linear(hidden, weight)
    nll = F.cross_entropy(scores + bias, targets)
    with torch.no_grad():
        soft = F.softmax(F.linear(words[targets], words) / temperature, dim=-1)
    log_tempered = F.log_softmax(scores / temperature, dim=-1)
    return nll + strength * F.kl_div(log_tempered, soft, reduction="batchmean")
