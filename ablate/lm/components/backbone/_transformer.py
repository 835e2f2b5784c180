"""The settings of a Transformer, and those that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.lm.components import CombinationError, Shapes, setting
from ablate.lm.components.backbone._block import FEED_FORWARD, default_width


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Layers, what they consist of, and how their parameters start."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=1000)
    units: int = setting(200, doc="units of every layer, and of a word vector", low=1)
    heads: int = setting(4, doc="heads of attention, which divide the units", low=1)
    key_value_heads: int | None = setting(
        None, doc="heads of keys and values, which divide the heads; none: as many", low=1
    )
    norm: str = setting("layer", doc="layer norm, or RMS norm", choices=("layer", "rms"))
    norm_epsilon: float = setting(1e-5, doc="added to a variance or a mean square", low=0)
    norm_scale: bool = setting(True, doc="norms have a trained scale (layer: and a bias)")
    input_norm: bool = setting(False, doc="a norm of the word vectors, before the first layer")
    final_norm: bool = setting(True, doc="a norm after the last layer")
    biases: bool = setting(False, doc="biases of matrices and of layer norms")
    positions: str = setting(
        "rotary",
        doc="how steps know where they are: turned queries and keys, a table of vectors, not at "
        "all",
        choices=("rotary", "learned", "none"),
    )
    rotary_base: float = setting(10_000.0, doc="base of the rotary angles", low=1)
    context: int = setting(
        1024, doc="vectors in the table of learned positions: the longest window", low=1
    )
    feed_forward: str = setting("gelu", doc="kind of feed-forward layer", choices=FEED_FORWARD)
    feed_forward_units: int | None = setting(
        None, doc="its units within; none: 4 times the layer's, with swiglu 8/3 times", low=1
    )
    qk_norm: bool = setting(False, doc="RMS norm of queries and keys, head by head")
    soft_cap: float | None = setting(
        None, doc="attention's logits are cap tanh(logit / cap); none: off; slower", low=1e-3
    )
    windows: int | tuple[int, ...] = setting(
        0, doc="a step reads the last N steps up to itself; 0: all; or one number per layer", low=0
    )
    value_embeddings: tuple[int, ...] = setting(
        (), doc="layers, from 1, that add a further vector of each word to its values", low=1
    )
    dropout: float = setting(
        0.0, doc="dropout rate on what attention and feed-forward layers add", low=0, high=0.99
    )
    initial_range: float | None = setting(
        None, doc="matrices start uniform in +- this; none: 1/sqrt(inputs)", low=0
    )
    initial_output: str = setting(
        "plain",
        doc="the range of what a layer adds: as any matrix, divided by sqrt(2 layers) (GPT-2), 0",
        choices=("plain", "by_depth", "zero"),
    )

    @property
    def by_layer(self) -> tuple[int, ...]:
        """The sliding window of each layer."""
        return _by_layer(self.windows, self.num_layers)

    @property
    def head_units(self) -> int:
        """The units of a head."""
        return self.units // self.heads

    @property
    def inner_units(self) -> int:
        """The units within a feed-forward layer."""
        return self.feed_forward_units or default_width(self.feed_forward, self.units)

    @property
    def bound(self) -> float:
        """The range of the first values of vectors that are looked up."""
        return self.units**-0.5 if self.initial_range is None else self.initial_range

    @property
    def falls(self) -> float:
        """The power of the width by which this range falls."""
        return 0.5 if self.initial_range is None else 0.0

    @property
    def output_scale(self) -> float:
        """The factor of the first values of what a layer adds."""
        scales = {"plain": 1.0, "by_depth": (2 * self.num_layers) ** -0.5, "zero": 0.0}
        return scales[self.initial_output]


def _by_layer(windows: int | tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    given = (windows,) * num_layers if isinstance(windows, int) else windows
    if len(given) != num_layers:
        raise CombinationError(
            f"backbone.windows has {len(given)} numbers ({list(given)}), but backbone.num_layers = "
            f"{num_layers}. Instead: one number for all layers, or one per layer."
        )
    return given


def check(config: TransformerConfig, shapes: Shapes) -> None:
    """Refuse word vectors of another width than the stream, heads that cannot be turned, and value
    embeddings of layers that there are not."""
    if config.units != shapes.embedding:
        raise CombinationError(
            "a Transformer adds to the word vectors, layer by layer, and backbone.units = "
            f"{config.units}, while embedding.size = {shapes.embedding}. Instead: the same number "
            "for both."
        )
    whole = config.units % config.heads == 0  # otherwise attention says what is wrong
    if config.positions == "rotary" and whole and config.head_units % 2:
        raise CombinationError(
            "backbone.positions = 'rotary' turns pairs of units, and a head has "
            f"{config.head_units}: backbone.units / backbone.heads. Instead: an even number, or "
            "another kind of positions."
        )
    wrong = [number for number in config.value_embeddings if number > config.num_layers]
    if wrong or len({*config.value_embeddings}) < len(config.value_embeddings):
        raise CombinationError(
            f"backbone.value_embeddings = {list(config.value_embeddings)} names a layer twice, or "
            f"one that is not there: backbone.num_layers = {config.num_layers}. Instead: different "
            f"numbers from 1 to {config.num_layers}."
        )


def check_length(steps: int, context: int) -> None:
    """Refuse a window for which there are too few positions. Settings are refused earlier."""
    if steps > context:
        raise CombinationError(
            f"a window of {steps} steps, and backbone.context = {context} learned positions. "
            "Instead: shorter windows, a larger context, or backbone.positions = 'rotary'."
        )
