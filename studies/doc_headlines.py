"""DOC's Table 10: does a mixture of softmaxes from two layers write better headlines?

Question   An encoder-decoder with attention: one softmax, or a mixture of two from the attentional
           layer, or of four from this and the layer below? And what no paper tried: four (a MoS)
           from the attentional layer alone, an output gate, and a dual layer.
Paper      Takase, Suzuki, Nagata 2018, Table 10 (the test set of Zhou et al. 2017; F1 of ROUGE-1,
           ROUGE-2 and ROUGE-L, the mean of three runs): EncDec 46.77 / 24.87 / 43.58,
           i3=2 46.91 / 24.91 / 43.73, i3=i2=2 46.99 / 25.29 / 43.83.
Run        ablate study studies/doc_headlines.py                 laptop: the built-in language
           ablate study studies/doc_headlines.py --scale small   titles of AG's news
           ablate study studies/doc_headlines.py --scale paper   days on a GPU
Cost       `ablate plan studies/doc_headlines.py [--scale SCALE]` says.

`small` needs `ablate data get ag_news --from DIR`: 6,080 news, so few that no headline
is good; what is asked is which head learns more from them. Gigaword and the test set of Zhou et al.
are for the user to bring, as a folder `headlines` with train.src (first sentences), train.tgt
(headlines), valid.src and so on. The settings that the paper does not print are in
search_spaces/takase2018doc_section6.toml. `laptop` reads the built-in pairs, to show that all of it
runs: a translation, not a headline.

ROUGE counts the words that Lin's program counts, so not the # that these texts have for a digit. At
the other scales, whose texts have none in its place, # and letters of every script count too.
"""

from ablate import Arm, Scale, Study, smoke, table

DOC = {"head": "doc", "head.tied": True, "head.latent_activation": "none"}


def published(name: str, changes: dict) -> Arm:
    return Arm(name, changes, published=(name, ""))


def sized(units: int, **more: object) -> dict:
    sizes = ("embedding.size", "backbone.units", "encoder.units", "attention.units")
    words = {"evaluator.generate.rouge_tokenizer": "unicode"}
    return {**dict.fromkeys(sizes, units), **words, **more}


laptop = Scale(
    corpus="pairs",
    column="headlines",
    seeds=2,
    arms=("EncDec", "EncDec+DOC (i3=i2=2)"),
    changes=sized(
        64,
        **{
            "corpus.merges": None,
            "corpus.train_pairs": 8000,
            "regularizer": "none",
            "optimizer.learning_rate": 0.006,
            "training.epochs": 6,
            "training.batch_size": 32,
            "evaluator.generate.beam": 4,
        },
    ),
)

small = Scale(
    corpus="ag_news",
    column="headlines",
    seeds=3,
    changes=sized(
        96,
        **{
            "corpus.lowercase": True,
            "corpus.merges": 2000,
            "corpus.max_length": 60,
            "optimizer.learning_rate": 0.002,
            "optimizer.flat_epochs": 8,
            "training.epochs": 12,
            "training.batch_size": 32,
            "evaluator.generate.beam": 5,
        },
    ),
    note="No model of this size writes headlines yet: they share a few common words with the real "
    "ones (docs/notes/log.md).",
)

study = Study(
    question="Does a mixture of softmaxes from two layers write better headlines?",
    paper="takase2018doc",
    tables=("Table 10",),
    metric="generate.rouge_1",
    columns=("generate.rouge_2", "generate.rouge_l", "nll"),
    base="takase2018doc_section6",
    base_arm="EncDec",
    design=table(
        published("EncDec", {}),
        published("EncDec+DOC (i3=2)", {**DOC, "head.experts": (2,)}),
        published("EncDec+DOC (i3=i2=2)", {**DOC, "head.experts": (2, 2)}),
        Arm("EncDec+DOC (i3=4)", {**DOC, "head.experts": (4,)}),
        Arm("EncDec+IOG", {"gate": "iog", "gate.units": 100}),
        Arm("EncDec+Dual", {"bridge": "dual"}),
    ),
    scales={
        "laptop": laptop,
        "small": small,
        "smoke": smoke(laptop),
        "paper": Scale(
            corpus="folder:headlines", column="headlines", seeds=3, published=True, gpus=1
        ),
    },
)
