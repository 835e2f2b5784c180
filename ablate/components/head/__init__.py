"""Heads: from features to a mixture of softmaxes over the vocabulary (of one, or of many)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ablate.components.flow import Draw, Features, Mixture
from ablate.components.regularizer import Masks


class Head(nn.Module, ABC):
    """Built as `Head(config, shapes)`. A tied head uses the word vectors it is handed."""

    num_components = 1  # of its mixture

    @abstractmethod
    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        """The distribution of the next word at every token; mask site: "latent"."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream of its own name."""
