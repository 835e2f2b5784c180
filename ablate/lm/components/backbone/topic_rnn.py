"""A simple recurrent layer that also reads the topics of the recent past (Mikolov & Zweig 2012).

    s_t = f(x_t + W s_{t-1} + F f_t)          x_t: the word's vector
    p(w_{t+1}) = softmax(V s_t + G f_t)       the layer's output is [s_t, f_t]; the head has V and G
    f_t ~ f_{t-1}^g * t(w_t)^(1-g)            a distribution over topics, up to its sum
    t(w) ~ P(topic | w) + e                   by latent Dirichlet allocation (`model/topics.py`)

So log f_t is a moving average of log t, up to a constant; it starts at 0, where all topics are
equal, and runs on across the ends of sentences. Topics are estimated on the training text alone,
f_t is of the words up to w_t, and neither is trained by gradients.

Known from the paper's abstract: topics by latent Dirichlet allocation of a block of preceding
text. From memory: 40 topics, documents of about 10 sentences, g near 0.9 (or a product over the
last 50 words instead), a smoothing constant. With 300 units these meet the parameters that 004
prints. Open: g and e of the published perplexities, the priors, whether words without content are
left out of topics, and whether f_t starts again at some ends of sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.errors import ConfigError
from ablate.lm.components import (
    Backbone,
    CombinationError,
    Draw,
    Masks,
    Outputs,
    Shapes,
    State,
    TrainingText,
    register,
    setting,
)
from ablate.lm.components.backbone.irlm import impulse_response
from ablate.lm.model.activation import ACTIVATIONS, Activation
from ablate.lm.model.fast.recurrence import recurrence
from ablate.lm.model.topics import LdaSettings, word_topics
from ablate.lm.model.width import first_range


@dataclass(frozen=True, kw_only=True)
class TopicRnnConfig:
    """The layer, its topics, and how they are estimated and followed."""

    units: int = setting(300, doc="number of units; must equal embedding.size", low=1)
    activation: str = setting("sigmoid", doc="nonlinearity f", choices=ACTIVATIONS)
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units)", low=0
    )
    topics: int = setting(40, doc="number of topics", low=1)
    memory: float = setting(0.9, doc="g: share of the past in each step's topics", low=0, high=1)
    smoothing: float = setting(
        0.01, doc="e: added to each word's probability of each topic", low=1e-9
    )
    sentences: int = setting(10, doc="sentences of a document, to estimate topics", low=1)
    prior: float = setting(0.025, doc="parameter of LDA's Dirichlet distributions", low=1e-6)
    passes: int = setting(100, doc="passes over the documents that estimate topics", low=1)
    seed: int = setting(0, doc="random seed of the topics", low=0)


def followed(log_topics_TBK: Tensor, last_BK: Tensor, memory: float) -> Tensor:
    """log f_t up to a constant: memory * log f_{t-1} + (1 - memory) * log t(w_t)."""
    memory_1K = last_BK.new_full((1, last_BK.shape[1]), memory)
    return impulse_response((1 - memory) * log_topics_TBK, last_BK, memory_1K)


@register(
    "backbone",
    "topic_rnn",
    config=TopicRnnConfig,
    paper="mikolov2012lda",
    equation="RNN+LDA of 004 Table 2, from memory; only the paper's abstract was read",
    departures=(
        "topics by variational inference; its priors and its number of passes are our choice",
        "the whole softmax instead of one by classes of words",
    ),
)
@final
class TopicRnn(Backbone):
    """One layer; the state is the last s, [1, B, H], and the last log f, [1, B, K]."""

    sites = frozenset({"output", "recurrent", "weight"})

    def __init__(self, config: TopicRnnConfig, shapes: Shapes) -> None:
        super().__init__()
        if shapes.embedding != config.units:
            raise CombinationError(
                f"the topic_rnn adds the word vectors directly to its units, but embedding.size = "
                f"{shapes.embedding} and backbone.units = {config.units}. Instead: the same "
                "number for both."
            )
        self.config = config
        self.widths = (config.units + config.topics,)
        self.f = Activation(config.activation)
        self.weight_hh_l0 = nn.Parameter(torch.empty(config.units, config.units))
        self.weight_ih_topics = nn.Parameter(torch.empty(config.units, config.topics))
        self.register_buffer("log_topics_VK", torch.zeros(shapes.vocabulary, config.topics))
        self.has_topics = False

    def read_text(self, text: TrainingText) -> None:
        config = self.config
        lda = LdaSettings(
            topics=config.topics,
            sentences=config.sentences,
            prior=config.prior,
            passes=config.passes,
            seed=config.seed,
        )
        topics_VK = word_topics(text.stream("train"), text.num_words, text.eos, lda)
        smooth_VK = topics_VK + config.smoothing
        log_topics_VK = (smooth_VK / smooth_VK.sum(1, keepdim=True)).log()
        self.get_buffer("log_topics_VK").copy_(log_topics_VK)
        self.has_topics = True

    def initial_state(self, rows: int) -> State:
        sizes = (self.config.units, self.config.topics)
        return tuple(self.weight_hh_l0.new_zeros(1, rows, size) for size in sizes)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        if not self.has_topics:
            # Not when built: parameters are counted without a text.
            raise ConfigError(
                "backbone 'topic_rnn' estimates topics on a training text, and was built without "
                "one. Instead: assemble(..., text=corpus)."
            )
        log_topics_TBK = self.get_buffer("log_topics_VK")[ids_TB]
        log_f_TBK = followed(log_topics_TBK, state[1][0], self.config.memory)
        # The state stays log f up to a constant; the softmax normalizes what the layer reads.
        f_TBK = log_f_TBK.softmax(-1)
        u_TBH = inputs_TBE + F.linear(f_TBK, self.weight_ih_topics)
        mask = masks.locked("recurrent/1", (1, *u_TBH.shape[1:]), u_TBH)
        weight = masks.weight("weight_hh_l0", self.weight_hh_l0)
        s_TBH = recurrence(u_TBH, state[0][0], weight, self.f, None if mask is None else mask[0])
        output_TBH = torch.cat((s_TBH, f_TBK.to(s_TBH.dtype)), 2)
        masked_TBH = masks("output", output_TBH)
        return (output_TBH,), (masked_TBH,), (s_TBH[-1:], log_f_TBK[-1:])

    def initialize(self, draw: Draw) -> None:
        config = self.config
        for name, parameter in self.named_parameters():
            bound = first_range(parameter, config.initial_range, config.units)
            parameter.data.uniform_(-bound, bound, generator=draw(name))
