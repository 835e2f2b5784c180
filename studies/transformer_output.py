"""The papers' ideas over a Transformer, in all combinations, at one size.

Question   A mixture of softmaxes from the last or from two layers, a gate by the input word, a
           layer that reads the word beside the backbone (dual), and the augmented loss: which of
           them helps a Transformer with tied word vectors?
Paper      None. Over LSTMs: Yang et al. 2018, Takase et al. 2017 and 2018, Oliva &
           Lago-Fernandez 2021, Inan et al. 2017.
Run        ablate study studies/transformer_output.py                      laptop: for two cores
           ablate study studies/transformer_output.py --scale laptop_operations
           ablate study studies/transformer_output.py --scale small        PTB in byte pairs
           ablate study studies/transformer_output.py --scale small_operations
           ablate study studies/transformer_output.py --scale gpu          WikiText-103
Cost       `ablate plan studies/transformer_output.py [--scale NAME]` says.

All arms have the same number of parameters or, at the scales `..._operations`, the same number of
floating point operations for each training token. What a technique adds is taken from the units of
the backbone. A mixture of four softmaxes has few parameters of its own and many operations.
Settings are the same for all arms, and were tuned for none of them. Vectors of mixtures are linear,
as DOC's Eq. 11 has them: with a tanh they stay on a plateau at these settings (docs/notes/log.md).
"""

from ablate import Scale, Study, equal, factorial, smoke

LINEAR = {"head": "doc", "head.latent_activation": "none"}
SMALL = {"corpus.level": "bpe", "corpus.merges": 1000}
GPU = {"corpus.level": "bpe", "corpus.merges": 8000}


def one_size(vocabulary: int, heads: int, gate: int = 8, **number: int):
    """All arms as wide as this number of parameters or operations allows, with such a gate."""
    fit = equal(
        vocabulary=vocabulary,
        by={"backbone.units": 2 * heads, "backbone.feed_forward_units": 1},
        same={"embedding.size": "backbone.units"},
        **number,
    )

    def adapt(values: dict) -> dict:
        gated = {"gate.units": gate} if values.get("gate") == "iog" else {}
        return {**gated, **fit({**values, **gated})}

    return adapt


def scale(**words) -> Scale:
    return Scale(seeds=5, **words)


laptop = {"corpus": "grammar", "column": "laptop"}
small = {"corpus": "ptb", "column": "small", "changes": SMALL}
gpu = {
    "corpus": "wikitext-103",
    "column": "gpu",
    "changes": GPU,
    "gpus": 1,
    "precision": "bfloat16",
}

BASE = "mixture none, gate no, dual no, loss plain"
ALL = "mixture two layers, gate yes, dual yes, loss augmented"

study = Study(
    question="Which of the papers' ideas helps a Transformer of the same size?",
    base="laptop_transformer",
    base_arm=BASE,
    design=factorial(
        {
            "mixture": {
                "none": {},
                "last layer": {**LINEAR, "head.experts": (4,)},
                "two layers": {**LINEAR, "head.experts": (2, 2)},
            },
            "gate": {"no": {}, "yes": {"gate": "iog", "gate.dropout": 0.0}},
            "dual": {"no": {}, "yes": {"bridge": "dual"}},
            "loss": {"plain": {}, "augmented": {"loss": "augmented"}},
        }
    ),
    scales={
        "laptop": scale(**laptop, adapt=one_size(810, 4, parameters=52_000)),
        "smoke": smoke(scale(**laptop), seeds=1, arms=[BASE, ALL]),
        "laptop_operations": scale(**laptop, adapt=one_size(810, 4, operations=500_000)),
        "small": scale(**small, adapt=one_size(1256, 4, parameters=230_000)),
        "small_operations": scale(**small, adapt=one_size(1256, 4, operations=2_400_000)),
        "gpu": scale(**gpu, adapt=one_size(8256, 8, 64, parameters=30_000_000)),
        "gpu_operations": scale(**gpu, adapt=one_size(8256, 8, 64, operations=200_000_000)),
    },
)
