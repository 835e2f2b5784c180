"""The impulse-response language model, Table 1b: what does it lose on a large text by words?

Question   On a text too large to overfit, a rectified recurrent network and a linear diagonal one,
           both trained by noise-contrastive estimation, against counts of five words: does the
           nonlinearity pay, and does dropout?
Paper      Pachitariu & Sahani 2013, Table 1b (text8 by words, test perplexity): KN5 298, with a
           cache 228, IRLM 197, RNN 179 (50 epochs; 191 after 10 in the first version). Dropout
           did not help either (abstract), without a number.
Run        ablate study studies/irlm_text8.py                 laptop: for two cores
           ablate study studies/irlm_text8.py --scale paper   days on a GPU
Cost       `ablate plan studies/irlm_text8.py [--scale paper]` says.

text8 is for the user to bring: a folder `text8` here, with the first 90 million characters as
train.txt (15,301,600 words; those that come fewer than five times become <unk>, which leaves
67,428) and the next two times 5 million as valid.txt and test.txt. It has no sentences, so that
Kneser-Ney's histories run on. The cache is of the last 100 words. What the paper leaves open (the
noise words' number, rates, batches, initial weights, R's start, IRLM's epochs) is ours and untried.

The paper holds the scores to a normaliser of 1, and so does its scale: words that are seldom drawn
as noise take long to fall to their place. At `laptop` scale it is V, where training starts, which
is the same model once it is normalised. The rate is halved after an epoch that did not improve
validation (`irlm_ptb.py`); at `laptop` scale Adam has one rate.
"""

from typing import Any

from ablate import Arm, Scale, Study, smoke, table


def counts(name: str, published: str, **values: int) -> Arm:
    changes = {"model": "ngram", "ngram.order": 5, **{f"ngram.{k}": v for k, v in values.items()}}
    return Arm(name, changes, published=(published, ""))


UNSTATED = {  # by the paper
    "embedding.initial_range": 0.25,
    "head.initial_range": 0.1,
    "optimizer.learning_rate": 10.0,
    "optimizer.decay": 2.0,
    "training.batch_size": 100,
    "training.window": 20,
    "training.clip": 1.0,
}
R = {"backbone.recurrent_range": 0.001}  # of the RNN: starts near 0
DROPOUT = {"regularizer.dropout.output": 0.5}  # as on Penn Treebank (irlm_ptb.py)


def rnn(name: str, changes: dict | None = None, **more: Any) -> Arm:
    return Arm(name, {**R, **(changes or {})}, recipe="pachitariu2013irlm_table1b:rnn", **more)


def shorter(values: dict) -> dict:
    """A fifth of the epochs, as 10 are of 50."""
    return {"training.epochs": 1} if values.get("training.epochs") == 10 else {}


def slower(values: dict) -> dict:
    """The RNN's rates by SGD: on a slice of Penn Treebank it diverged at 3, and was lost at 1."""
    if values.get("backbone") != "elman":
        return {}
    return {"optimizer.learning_rate": 0.3, "backbone.recurrent_rate": 0.1}


laptop = Scale(
    corpus="grammar",
    seeds=4,
    changes={
        **UNSTATED,
        "corpus.train_tokens": 60_000,
        "corpus.min_count": 1,
        "embedding.size": 32,
        "backbone.units": 32,
        "loss.log_normalizer": 6.7,  # log V
        "optimizer": "adam",
        "optimizer.schedule": "constant",
        "optimizer.learning_rate": 0.01,
        "training.batch_size": 20,
        "training.epochs": 5,
    },
    adapt=shorter,
)

study = Study(
    question="Does a nonlinearity pay on a text too large to overfit?",
    paper="pachitariu2013irlm",
    tables=("Table 1b",),
    base="pachitariu2013irlm_table1b:irlm",
    base_arm="IRLM",
    design=table(
        counts("KN5", "KN5"),
        counts("KN5, cache", "KN5+cache", cache_window=100),
        Arm("IRLM", published=("IRLM", "")),
        rnn("RNN", published=("RNN", "")),
        rnn("RNN, 10 epochs", {"training.epochs": 10}, against="RNN"),  # 191, a footnote has
        Arm("IRLM, dropout", DROPOUT, against="IRLM"),
        rnn("RNN, dropout", DROPOUT, against="RNN"),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop),
        "paper": Scale(
            corpus="folder:text8",
            seeds=1,
            changes=UNSTATED,
            adapt=slower,
            published=True,
            gpus=1,
        ),
    },
)
