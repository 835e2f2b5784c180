"""Does every backbone and every head learn on real text?

Question   Each backbone under a plain softmax, and each head, bridge, gate and loss over the same
           LSTM: does validation fall from epoch to epoch on a slice of the Penn Treebank?
Run        ablate study studies/every_part_learns.py --scale words        needs the corpus ptb
           ablate study studies/every_part_learns.py --scale characters   its letters
           ablate study studies/every_part_learns.py --scale built_in     needs no corpus
Cost       `ablate plan studies/every_part_learns.py --scale SCALE` says.

Not a comparison: nothing is tuned, and one seed decides nothing. `ablate data get ptb` fetches the
corpus.
"""

from ablate import Arm, Scale, Study, smoke, table

BASE = {
    "embedding.size": 64,
    "embedding.initial_range": 0.3,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 64,
    "head": "softmax",
    "optimizer": "adam",
    "optimizer.learning_rate": 0.004,
    "training.epochs": 3,
    "training.batch_size": 16,
    "training.window": 25,
    "training.clip": 1.0,
}
SLOWER = {"optimizer.learning_rate": 0.001}  # at the others' rate, rectifiers rise after an epoch
BACKBONES = (
    Arm("lstm"),
    Arm("lstm, masks on the state", {"regularizer.variational_dropout.recurrent": 0.1}),
    Arm("gru", {"backbone": "gru"}),
    Arm("elman, relu", {"backbone": "elman", "backbone.activation": "relu", **SLOWER}),
    Arm("elman, tanh", {"backbone": "elman", "backbone.activation": "tanh"}),
    Arm("irlm", {"backbone": "irlm"}),
    Arm("rhn", {"backbone": "rhn", "backbone.depth": 3}),
    Arm("mogrifier", {"backbone": "mogrifier", "backbone.rounds": 4, "backbone.rank": 16}),
)
REST = (
    Arm("tied", {"head.tied": True}),
    Arm("mlp", {"head": "mlp", "head.units": 64, **SLOWER}),
    Arm("mos", {"head": "mos", "head.experts": 3}),
    Arm("doc", {"head": "doc", "head.experts": (2, 1)}),
    Arm("dual bridge", {"bridge": "dual", "bridge.units": 64, **SLOWER}),
    Arm("iog gate", {"gate": "iog", "gate.units": 32}),
    Arm("augmented loss", {"loss": "augmented", "head.tied": True}),
    Arm("noise-contrastive loss", {"loss": "nce", "loss.log_normalizer": 7.0}),  # about log V
)
LETTERS = (Arm("skipping rnn", {"backbone": "skipping_rnn"}),)

slice_of_ptb = {"corpus.train_tokens": 60_000, "corpus.eval_tokens": 8_000}
words = [arm.name for arm in (*BACKBONES, *REST)]
letters = [arm.name for arm in (*BACKBONES, *LETTERS)]

built_in = Scale(
    corpus="grammar",
    seeds=1,
    changes={"corpus.train_tokens": 20_000, "corpus.eval_tokens": 4_000},
    arms=words,
)

study = Study(
    question="Does every backbone and every head learn on real text?",
    base=BASE,
    base_arm="lstm",
    design=table(*BACKBONES, *REST, *LETTERS),
    scales={
        "words": Scale(corpus="ptb", seeds=1, changes=slice_of_ptb, arms=words),
        "characters": Scale(
            corpus="ptb",
            seeds=1,
            changes={**slice_of_ptb, "corpus.level": "character"},
            arms=letters,
        ),
        "built_in": built_in,
        "smoke": smoke(built_in),
    },
)
