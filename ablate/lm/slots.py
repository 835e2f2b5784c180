"""The slots of a language model, and what fills them where a config says nothing."""

LANGUAGE_SLOTS = (
    "words",
    "backbone",
    "bridge",
    "head",
    "gate",
    "loss",
    "regularizer",
    "optimizer",
    "schedule",
    "evaluator",
)
SLOTS = (*LANGUAGE_SLOTS, "encoder", "attention")
LISTED_SLOTS = ("regularizer", "evaluator")  # any number of techniques; other slots take one
DEFAULT_TECHNIQUES = {
    "words": "table",
    "bridge": "none",
    "gate": "none",
    "loss": "cross_entropy",
    "schedule": "constant",
    "encoder": "lstm",
    "attention": "luong",
}
# `ablate new --technique` writes a copy of this one, which works.
EXAMPLES = {
    "attention": "luong",
    "backbone": "gru",
    "bridge": "layer_sum",
    "encoder": "lstm",
    "evaluator": "tempered",
    "gate": "iog_hidden",
    "head": "softmax",
    "loss": "cross_entropy",
    "optimizer": "adagrad",
    "regularizer": "activation_l2",
    "schedule": "cosine",
    "words": "table",
}
