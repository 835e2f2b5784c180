"""What Pachitariu & Sahani's Table 2 quotes: Mikolov's RNN, and two models without recurrence.

Question   What do Kneser-Ney counts with a cache, following the text, and averaging ten models give
           to a sigmoid RNN, a feed-forward and a log-bilinear model?
Paper      Pachitariu & Sahani 2013, Table 2, test, quoted from Mikolov et al. 2011: RNN 124.7, with
           counts 97.5, ten of it 102.1, both 89.4; dynamic 123.2, 98.0, 101.0, 90.0. Feed-forward
           model 140.2, with counts 106.6; log-bilinear model 144.5, with counts 105.8.
Run        ablate study studies/irlm_quoted.py                 laptop: for two cores
           ablate study studies/irlm_quoted.py --scale paper   a day on two cores
Cost       `ablate plan studies/irlm_quoted.py [--scale paper]` says.

The RNN's recipe lists what the toolkit does otherwise; the settings of the two other models are all
ours. "Counts" are a Kneser-Ney 5-gram and a cache of 100 words, with weights that validation
chooses. A dynamic model trains on the words that it has predicted, at a rate of 0.1 for each, ten
words at a time. The page's ten models are as many of one size here; as we remember, the source
mixed about twenty of several sizes.
"""

from ablate import Arm, Scale, Stage, Study, smoke, table

RNN, DYNAMIC_RNN = "RNN [2]", "dynamic RNN [2]"
COUNTS = {"evaluator": "interpolated", "evaluator.interpolated.cache_window": 100}
DYNAMIC = {
    "evaluator": "dynamic",
    "evaluator.dynamic.rule": "sgd",
    "evaluator.dynamic.learning_rate": 1.0,  # of the mean over ten words
    "evaluator.dynamic.window": 10,
}
BOTH = {**DYNAMIC, **COUNTS, "evaluator.interpolated.of": "dynamic"}
WAYS = (  # to evaluate: the arm's name, the published one, what changes
    ("RNN", (RNN, ""), {}),
    ("RNN, counts", (RNN, "+KN5+cache"), COUNTS),
    ("dynamic RNN", (DYNAMIC_RNN, ""), DYNAMIC),
    ("dynamic RNN, counts", (DYNAMIC_RNN, "+KN5+cache"), BOTH),
)


WITHOUT_RECURRENCE = tuple(
    Arm(
        f"{name}{', counts' if changes else ''}",
        recipe=f"mikolov2011feedforward:{column}",
        then=(Stage("judged", changes, kind="evaluate"),) if changes else (),
        published=(printed, variant),
    )
    for name, column, printed in (
        ("feed-forward", "nnlm", "feedforward NNLM"),
        ("log-bilinear", "lbl", "Log-bilinear LM"),
    )
    for variant, changes in (("", {}), ("+KN5+cache", COUNTS))
)


def alone(name: str, published: tuple[str, str], changes: dict) -> Arm:
    then = (Stage("judged", changes, kind="evaluate"),) if changes else ()
    return Arm(name, then=then, published=published)


def together(name: str, published: tuple[str, str], changes: dict) -> Arm:
    model, variant = published
    stage = Stage("together", changes, kind="evaluate", over="seeds")
    return Arm(f"{name}, ensemble", then=(stage,), published=(model, f"x10{variant}"))


laptop = Scale(
    corpus="grammar",
    seeds=4,
    changes={
        "corpus.train_tokens": 30_000,
        "corpus.eval_tokens": 3000,
        "embedding.size": 48,
        "backbone.units": 48,
        "training.epochs": 3,
    },
)

study = Study(
    question="What do counts, following the text and averaging give to older models?",
    paper="pachitariu2013irlm",
    tables=("Table 2",),
    base="mikolov2011rnn:words",
    base_arm="RNN",
    design=table(
        *(alone(*way) for way in WAYS),
        *(together(*way) for way in WAYS),
        *WITHOUT_RECURRENCE,
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop),
        "paper": Scale(corpus="ptb", seeds=10, published=True),
    },
)
