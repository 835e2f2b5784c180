"""Ten sequence models of 1997 to 2025, of one size and equally tuned.

Question   Which predicts best: LSTM, Mogrifier LSTM, IRLM, LRU, minGRU, xLSTM, Mamba-2, the gated
           delta rule, that with every fourth layer of attention, or a Transformer?
Paper      None. Pachitariu & Sahani 2013 asked it of the networks of their time.
Run        ablate study studies/recurrence_today.py                 laptop: for two cores
           ablate study studies/recurrence_today.py --scale small   PTB in byte pairs
           ablate study studies/recurrence_today.py --scale gpu     WikiText-103
Cost       `ablate plan studies/recurrence_today.py [--scale NAME]` says.

All have about the same number of parameters, a tied softmax, AdamW and half a cosine. Each is
searched three times over learning rate, warm-up and dropout. A verdict is about such a search, and
about this size. A recurrent model reads the text on from window to window; a model with attention
reads windows that overlap by half, in validation too.
"""

from typing import Any

from ablate import Arm, Scale, Search, Study, equal, smoke, table

SMALL = {"corpus.level": "bpe", "corpus.merges": 1000}
GPU = {"corpus.level": "bpe", "corpus.merges": 8000}
STEPS = {"lstm": 1, "mogrifier": 1, "irlm": 1, "mingru": 1, "xlstm": 2}  # others: by heads
WINDOWS = ("training.valid_stride", "evaluator.standard.stride")


def arm(name: str, backbone: str, **fields: Any) -> Arm:
    """A backbone, without the fields of the recipe's Transformer."""
    return Arm(name, {"backbone": backbone, **{f"backbone.{k}": v for k, v in fields.items()}})


def sized(vocabulary: int, parameters: int):
    """One size for all; overlapping windows where a model sees its window alone."""

    def adapt(values: dict) -> dict:
        attends = values["backbone"] == "transformer" or values.get("backbone.attention_every")
        strides = dict.fromkeys(WINDOWS, values["training.window"] // 2 if attends else None)
        fit = equal(
            vocabulary=vocabulary,
            parameters=parameters,
            by={
                "backbone.units": STEPS.get(values["backbone"])
                or 2 * values.get("backbone.heads", 4),
                "backbone.feed_forward_units": 1,
                "backbone.inner_units": 1,
                "backbone.state": 1,
            },
            same={"embedding.size": "backbone.units"},
        )
        return {**strides, **fit({**values, **strides})}

    return adapt


def scale(vocabulary: int, parameters: int, trials: int, **words: Any) -> Scale:
    search = Search(space="recurrence_today", trials=trials, repeats=3, synchronous=True, batch=2)
    return Scale(seeds=1, search=search, adapt=sized(vocabulary, parameters), **words)


laptop = scale(810, 52_000, 4, corpus="grammar", column="laptop")
small = scale(1256, 230_000, 5, corpus="ptb", column="small", changes=SMALL)
gpu = scale(
    8256,
    30_000_000,
    12,
    corpus="wikitext-103",
    column="gpu",
    changes=GPU,
    gpus=1,
    precision="bfloat16",
)

BRIEF = ["LSTM", "gated delta and attention", "Transformer"]

study = Study(
    question="Which sequence model predicts best, at one size and equally tuned?",
    base="laptop_transformer",
    base_arm="LSTM",
    design=table(
        arm("LSTM", "lstm"),
        arm("Mogrifier", "mogrifier", rank=8),
        arm("IRLM", "irlm"),
        arm("LRU", "lru", state=48),
        arm("minGRU", "mingru"),
        arm("xLSTM", "xlstm", heads=2, slstm_at=(1,)),
        arm("Mamba-2", "mamba2", state=16),
        arm("gated delta", "gated_delta"),
        arm("gated delta and attention", "gated_delta", num_layers=4, attention_every=4),
        Arm("Transformer"),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1, arms=BRIEF),
        "small": small,
        "gpu": gpu,
    },
)
