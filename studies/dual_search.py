"""The dual layer, last row of Table 2: what is left to tune once a model is trained?

Question   The best dual model: how much does a search over how it is evaluated (the softmax's
           temperature, and the window, rate, clipping and beta1 of dynamic evaluation) still find?
Paper      Oliva & Lago-Fernandez 2021, Table 2 and text 4.2 (Penn Treebank, test): Dual mdLSTM
           51.19, dynamic 44.61, both tuned on validation after training; as trained for Table 1,
           52.16 and 46.09.
Run        ablate study studies/dual_search.py                 laptop: for two cores
           ablate study studies/dual_search.py --scale paper   weeks on a GPU
Cost       `ablate plan studies/dual_search.py [--scale paper]` says.

All arms judge the same trained models; a search reads validation, and test only once. Dynamic arms
follow the validation text before test, tuned or not: "dynamic" has a rate and a window of ours.
Where the model does not follow the text its rate is 0, so that the temperature alone is tuned. The
learning rate of the training is not printed: ours is Nadam's default.
"""

from ablate import Arm, Scale, Search, Stage, Study, smoke, table

TUNED = Search(space="oliva2021dual_text4_2_evaluation", trials=30)
OURS = "Dual mdLSTM - ours"
FOLLOWING = {"rule": "nadam", "learning_rate": 1e-4, "window": 25, "through_valid": True}


def judged(name: str, changes: dict, search: Search | None = None) -> Stage:
    named = {f"evaluator.dynamic.{key}": value for key, value in changes.items()}
    return Stage(name, {"evaluator": "dynamic", **named}, kind="evaluate", search=search)


laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={
        "corpus.train_tokens": 60_000,
        "corpus.eval_tokens": 3000,
        "embedding.size": 32,
        "embedding.initial_range": 0.3,
        "backbone.units": 32,
        "backbone.rank": 8,
        "backbone.dropout": 0.0,
        "bridge.units": 32,
        "bridge.input_dropout": 0.05,
        "bridge.output_dropout": 0.05,
        **{
            f"regularizer.variational_dropout.{site}": 0.05
            for site in ("input", "recurrent", "hidden", "output")
        },
        "optimizer.learning_rate": 0.01,
        "training.epochs": 5,
        "training.batch_size": 16,
        "training.clip": 1.0,
    },
)

study = Study(
    question="What does a search over how a finished model is evaluated still find?",
    paper="oliva2021dual",
    tables=("Table 2",),
    base="oliva2021dual_text4_2",
    base_arm="as trained",
    design=table(
        Arm("as trained"),
        Arm(
            "tuned",
            then=(judged("judged", {"rule": "sgd", "learning_rate": 0.0}, TUNED),),
            published=(OURS, "no dyneval"),
        ),
        Arm(
            "dynamic",
            then=(judged("judged", FOLLOWING),),
        ),
        Arm(
            "dynamic, tuned",
            then=(judged("judged", {"rule": "nadam"}, TUNED),),
            published=(OURS, "dyneval"),
            against="dynamic",
        ),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1, arms=["dynamic", "dynamic, tuned"]),
        "paper": Scale(
            corpus="ptb",
            seeds=1,
            changes={"optimizer.learning_rate": 0.001},
            published=True,
            gpus=1,
        ),
    },
)
