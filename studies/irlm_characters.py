"""The impulse-response language model, Table 1a: what does it lose by characters?

Question   A rectified recurrent network over characters, one that also skips from word to word, and
           a linear diagonal one with a hidden layer before its output: which models letters best?
           Against a smaller rectified network with clipped gradients, as others have trained it.
Paper      Pachitariu & Sahani 2013, Table 1a (text8, test, bits per character): RNN of 2048 units
           1.55, skipping RNN 1.48, IRLM with NN output 2.12. Quoted: RNN of 512 units 1.80.
Run        ablate study studies/irlm_characters.py                 laptop: for two cores
           ablate study studies/irlm_characters.py --scale ptb     the letters of Penn Treebank
           ablate study studies/irlm_characters.py --scale paper   weeks on a GPU
Cost       `ablate plan studies/irlm_characters.py [--scale NAME]` says.

text8 is for the user to bring: a folder `text8` here, with the first 90 million characters as
train.txt and the next two times 5 million as valid.txt and test.txt. The rate is halved after an
epoch that did not improve validation (`irlm_ptb.py`). What the paper leaves open (the smoothing,
rates, batches, initial weights) is ours. The quoted RNN has rectifiers and clipped gradients, as
section 2.2 says of it. For the rest it is trained letter by letter, as Mikolov's toolkit trains an
RNN over words; whether its authors did so is not known here.
"""

from ablate import Arm, Scale, Study, smoke, table


def model(name: str, column: str, published: str) -> Arm:
    hidden = {"head.units": 512} if column == "irlm" else {"backbone.recurrent_range": 0.001}
    return Arm(
        name,
        hidden,
        recipe=f"pachitariu2013irlm_table1a:{column}",
        published=(published, ""),
    )


UNSTATED = {  # by the paper
    "embedding.initial_range": 0.3,
    "head.initial_range": 0.1,
    "optimizer.learning_rate": 0.002,
    "optimizer.decay": 2.0,
    "training.epochs": 10,
    "training.batch_size": 100,
    "training.window": 50,
}


QUOTED = Arm(
    "RNN of 512 units, quoted",
    {"optimizer.momentum_tokens": None},
    recipe="mikolov2011rnn:letters",
    published=("RNN (512 units) [9]", ""),
)


def unstated(values: dict) -> dict:
    """The quoted RNN's recipe is whole: it says for how long to train."""
    return {} if "training.epochs" in values else UNSTATED


def small(values: dict) -> dict:
    return {"head.units": 64} if values["head"] == "mlp" else {}


laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={
        **UNSTATED,
        "corpus.train_tokens": 100_000,
        "corpus.eval_tokens": 10_000,
        "embedding.size": 48,
        "backbone.units": 48,
        "optimizer.momentum_tokens": 4000,
        "optimizer.learning_rate": 0.1,
        "training.batch_size": 16,
        "training.window": 25,
        "training.epochs": 3,
    },
    adapt=small,
)

study = Study(
    question="What does a linear recurrent network lose by characters?",
    paper="pachitariu2013irlm",
    tables=("Table 1a",),
    base="pachitariu2013irlm_table1a:rnn",
    base_arm="RNN",
    design=table(
        model("RNN", "rnn", "RNN (2048 units, smoothed rectifier)"),
        model("skipping RNN", "skipping-rnn", "skipping RNN"),
        model("IRLM, NN output", "irlm", "IRLM w/ NN output"),
        QUOTED,
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1),
        "ptb": Scale(corpus="ptb", seeds=1, adapt=unstated, gpus=1),
        "paper": Scale(corpus="folder:text8", seeds=1, adapt=unstated, published=True, gpus=1),
    },
)
