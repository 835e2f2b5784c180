"""A ladder: does what helps a small Transformer help a larger one?

Question   Tied word vectors, a mixture of four softmaxes and Muon, each against an untied
           Transformer trained by AdamW, at four sizes: does the gain grow, hold or shrink?
Paper      None. Inan et al. 2017, Yang et al. 2018 and Jordan et al. 2024 have what is asked about.
Run        ablate study studies/transformer_ladder.py                 laptop: for two cores
           ablate study studies/transformer_ladder.py --scale small   PTB in byte pairs
           ablate study studies/transformer_ladder.py --scale gpu     WikiText-103
           ablate plot transformer_ladder@laptop             the curves, and gain by compute
Cost       `ablate plan studies/transformer_ladder.py [--scale NAME]` says.

Width, depth and training tokens rise together. Rates and first weights are transferred by muP from
the smallest rung, where they were tuned for no arm. The vectors of the mixture are linear, as in
DOC's Eq. 11: with a tanh (MoS) it stays on a plateau at these settings (docs/notes/log.md).
"""

from ablate import Arm, Ladder, Scale, Study, smoke, table

MIXTURE = {"head": "doc", "head.experts": (4,), "head.latent_activation": "none"}


def ladder(widths: tuple[int, ...], layers: tuple[int, ...], tokens: tuple[int, ...]) -> Ladder:
    return Ladder(
        {
            "backbone.units": widths,
            "embedding.size": widths,
            "backbone.num_layers": layers,
            "corpus.train_tokens": tokens,
        },
        transfer=lambda values: {"training.base_width": widths[0]},
        rule="muP: rates and first weights follow the width",
    )


laptop = Scale(
    corpus="grammar",
    column="laptop",
    seeds=3,
    ladder=ladder((16, 24, 32, 48), (1, 2, 2, 3), (20_000, 35_000, 55_000, 80_000)),
)
small = Scale(
    corpus="ptb",
    column="small",
    seeds=3,
    changes={"corpus.level": "bpe", "corpus.merges": 1000, "training.epochs": 2},
    ladder=ladder((32, 48, 64, 96), (2, 3, 3, 4), (200_000, 400_000, 700_000, 1_200_000)),
)
gpu = Scale(
    corpus="wikitext-103",
    column="gpu",
    changes={"corpus.level": "bpe", "corpus.merges": 8000},
    seeds=3,
    gpus=1,
    precision="bfloat16",
    compile="inductor",
    ladder=ladder(
        (128, 256, 512, 768, 1024),
        (4, 6, 8, 12, 16),
        (5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000),
    ),
)

study = Study(
    question="Does what tying, a mixture and Muon bring a Transformer go on with compute?",
    base="laptop_transformer",
    base_arm="untied, AdamW",
    design=table(
        Arm("untied, AdamW", {"head.tied": False}),
        Arm("tied", {}),
        Arm("mixture", {**MIXTURE, "head.tied": False}),
        Arm(
            "Muon", {"head.tied": False, "optimizer": "muon", "optimizer.rest_learning_rate": 0.01}
        ),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1, arms=["untied, AdamW", "Muon"]),
        "small": small,
        "gpu": gpu,
    },
)
