"""Inan et al.'s Figure 1: do the output vectors come to span what the word vectors span?

Question   With the augmented loss, untied: the distance between the subspaces of the word vectors
           and of the output matrix, by the loss's share (beta) and its temperature (tau).
Paper      Inan, Khosravi, Socher 2017, Figure 1 and section 6.2 (20,000 words of the Penn
           Treebank): about 1 at beta = 0, around 0.06 at beta = 1 and tau = 10; means of ten runs.
Run        ablate study studies/tying_subspace.py                 laptop: for two cores
           ablate study studies/tying_subspace.py --scale paper   hours on a GPU
           ablate report tying_subspace       the angles, on the study's page
Cost       `ablate plan studies/tying_subspace.py [--scale paper]` says.

Panel a varies beta at tau = 10, panel b tau at beta = 1. The perplexities in this table are beside
the point: at beta = 1 nothing trains but the divergence, and 20,000 words are few. They are
contiguous, from a position that each seed draws. The paper gives each row of L norm 1; L is
d x |V|, and a row is a word's vector here; in the last arm it is a unit over all words.
The vocabulary is that of the whole corpus; rate and epochs are ours, since the paper gives none.
"""

from dataclasses import replace

from ablate import Analyze, Arm, Scale, Study, recipe, smoke, table

CELL = ("2-layer LSTM 300 units", "beta=1, tau=10")


def point(beta: float, tau: float) -> Arm:
    return Arm(
        f"beta {beta:g}, tau {tau:g}",
        {"loss.weight": beta, "loss.temperature": tau},
        published=CELL if (beta, tau) == (1, 10) else None,
        levels={"beta": f"{beta:g}", "tau": f"{tau:g}"},
    )


BY_BETA = [point(beta, 10) for beta in (0, 0.25, 0.5, 0.75, 1)]
BY_TAU = [point(1, tau) for tau in (1, 3, 10, 30)]
nearest = point(1, 10)
literal = replace(
    nearest,
    name=f"{nearest.name}, rows are units",
    changes={**nearest.changes, "regularizer.column_norm.row": "unit"},
    levels={},
)


sizes = ("embedding.size", "embedding.initial_range", "backbone.units", "backbone.initial_range")
laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={
        **{name: recipe("laptop_lstm")[name] for name in sizes},
        "corpus.eval_tokens": 2000,
        "optimizer.learning_rate": 1.0,
        "training.epochs": 15,
    },
)
paper = Scale(
    corpus="ptb",
    seeds=10,
    changes={
        "optimizer.learning_rate": 1.0,
        "training.epochs": 100,
        "embedding.initial_range": 0.1,
        "backbone.initial_range": 0.1,
        "head.initial_range": 0.1,
    },
    published=True,
    gpus=1,
)

study = Study(
    question="Do the output vectors come to span what the word vectors span?",
    paper="inan2017tying",
    tables=("Figure 1a", "Figure 1b"),
    analyses=(
        Analyze("subspace_distance", tuple(arm.name for arm in BY_BETA), shows="Figure 1a"),
        Analyze("subspace_distance", tuple(arm.name for arm in BY_TAU), shows="Figure 1b"),
    ),
    measure={"evaluator": "word_vectors"},
    columns=("word_vectors.distance",),
    base="inan2017tying_section6_2",
    base_arm="beta 0, tau 10",
    design=table(
        *BY_BETA,
        *(arm for arm in BY_TAU if arm not in BY_BETA),
        literal,
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
