"""DOC's Table 11: which of a parser's trees is the right one?

Question   A language model reads a parser's candidates as linearised trees, and the most probable
           one is taken. Is DOC better at this than MoS and AWD-LSTM, and are several together?
Paper      Takase, Suzuki, Nagata 2018, Table 11 (Penn Treebank, Section 23, bracketing F1): the
           parser 89.7, with AWD-LSTM 93.2, MoS 93.2, DOC 93.3, five of each 93.4, 93.4, 93.5; five
           DOCs on the candidates of RNNG 94.29 and of Suzuki et al. 94.47. Quoted: Choe and
           Charniak 92.6; Suzuki et al. (2018) 92.74, with an LSTM 94.32.
Run        ablate study studies/doc_reranking.py                 laptop: for two cores
           ablate data get treebank && ablate data candidates treebank --k 20
           ablate study studies/doc_reranking.py --scale small   Wall Street Journal sample
           ablate study studies/doc_reranking.py --scale paper   days on a GPU
Cost       `ablate plan studies/doc_reranking.py [--scale paper]` says.

`laptop` has the built-in trees, where only words tell which attachment is right, `small` the 3,914
trees that NLTK distributes: files wsj_0001 to 0159 are train, to 0179 valid, to 0199 test. There
the candidates are the 20 best trees of a grammar estimated on the training trees. The base arm
takes the parser's first candidate, without a trained model. In "and parser" the parser's own log
probability has a weight in the score, which validation chooses; the validation F1 of such an arm is
therefore that of the weight's own choice. Section 7 says nothing of such a weight: that the five
DOCs over the candidates of RNNG and of Suzuki et al. have one is our reading.

At `paper` scale five folders are for the user to bring: `ptb_trees` with the trees of Sections 2 to
21 as train.txt, 22 as valid.txt and 23 as test.txt, and lists of candidates for both,
`charniak_nbest` (500 trees a sentence), `rnng_nbest` (700), `suzuki_nbest` (of the parser that the
paper trained) and `suzuki2018_nbest` (of the parsers of Suzuki et al. 2018 together), each with
valid.nbest and test.nbest. Whether the paper's models were fine-tuned is not said; here they are
not. Choe and Charniak's model is Zaremba's large LSTM with a third layer, as we remember it. The
recipe of Suzuki et al. (2018) is partly ours: we remember that an LSTM language model reranks the
trees of several encoder-decoders, and take Choe and Charniak's LSTM and a weight for the parsers'
score. Three quoted parsers have no arm: Dyer et al. and Fried et al. rerank with parsers, which no
language model here is, and Kitaev and Klein do not rerank.
"""

from dataclasses import replace

from ablate import Arm, Scale, Stage, Study, recipe, smaller, smoke, table

BASE, CHOSEN = "base", "rerank"  # the table's two columns
FIVE = Stage("together", kind="evaluate", over="seeds")
WEIGHED = {"evaluator.rerank.tune_weight": True}
FIRST = {"evaluator.rerank.parser_weight": 1.0, "training.epochs": 0}
RNNG = {"evaluator.rerank.candidates": "rnng_nbest", "evaluator.rerank.num_candidates": 700}
SUZUKI = {"evaluator.rerank.candidates": "suzuki_nbest"}
SUZUKI_2018 = {"evaluator.rerank.candidates": "suzuki2018_nbest"}
OF_2018 = "Suzuki et al. (2018)"
LSTM = Arm("LSTM", {"backbone.num_layers": 3}, recipe="zaremba2014:large")  # Choe and Charniak's
MODELS = (  # our name, the paper's, the recipe
    ("AWD-LSTM", "AWD-LSTM", "merity2018awd"),
    ("MoS", "AWD-LSTM-MoS", "yang2018mos"),
    ("DOC", "AWD-LSTM-DOC", None),
)


def alone(name: str, printed: str, base: str | None) -> Arm:
    return Arm(name, recipe=base, published=(printed, CHOSEN))


def together(name: str, printed: str, base: str | None) -> Arm:
    return Arm(
        f"{name}, ensemble",
        recipe=base,
        then=(FIVE,),
        published=(f"{printed} x5 (ensemble)", CHOSEN),
    )


def first(name: str, changes: dict, *printed: str) -> Arm:
    """The parser's own choice; its F1 is printed beside every model's."""
    rows = tuple((model, BASE) for model in printed)
    return Arm(name, {**FIRST, **changes}, published=rows[0], also_published=rows[1:])


def others(name: str, changes: dict) -> tuple[Arm, Arm]:
    """Another parser's candidates, and five DOCs that choose among them.

    That the parser's own score counts too is our reading.
    """
    printed = f"AWD-LSTM-DOC x5 (ensemble), {name} base"
    stage = Stage("chosen", {**changes, **WEIGHED}, kind="evaluate", over="seeds")
    chosen = Arm(f"DOC, ensemble, {name}", then=(stage,), published=(printed, CHOSEN))
    return first(f"first candidate, {name}", changes, printed), chosen


HERE = (
    first(
        "first candidate",
        {},
        *(printed for _, printed, _ in MODELS),
        *(f"{printed} x5 (ensemble)" for _, printed, _ in MODELS),
        "Choe and Charniak (2016)",
    ),
    *(alone(*model) for model in MODELS),
    *(together(*model) for model in MODELS),
    Arm("DOC and parser", then=(Stage("weighed", WEIGHED, kind="evaluate"),)),  # no paper's, as
    Arm("DOC, ensemble and parser", then=(replace(FIVE, changes=WEIGHED),)),  # the next
)
PAPER = (
    replace(LSTM, name="LSTM of Choe and Charniak", published=("Choe and Charniak (2016)", CHOSEN)),
    *others("RNNG", RNNG),
    *others("Suzuki et al.", SUZUKI),
    first(f"first candidate, {OF_2018}", SUZUKI_2018, f"{OF_2018} (ensemble)"),
    replace(
        LSTM,
        name=f"LSTM, {OF_2018}",
        then=(Stage("chosen", {**SUZUKI_2018, **WEIGHED}, kind="evaluate"),),
        published=(f"{OF_2018} (ensemble)", CHOSEN),
        against=f"first candidate, {OF_2018}",
    ),
)

TREES = {"corpus.level": "tree", "corpus.min_count": 10, "evaluator": "rerank"}
SMALL = {  # for 210,000 tokens of trees, a quarter of Penn Treebank's text
    "corpus.train_tokens": None,
    "embedding.size": 48,
    "backbone.units": (80, 80, 48),
    "backbone.last_units": 48,
    "training.epochs": 6,
    "evaluator.rerank.num_candidates": 20,
}

laptop = Scale(
    corpus="grammar_trees",
    column="ptb",
    seeds=4,
    changes={
        **recipe("laptop_awd"),
        **TREES,
        "corpus.min_count": 1,
        "corpus.train_tokens": 100_000,
    },
    adapt=smaller(strengths=8, experts=5),
    arms=[arm.name for arm in HERE],
)
small = Scale(
    corpus="treebank",
    column="ptb",
    seeds=3,
    changes={**recipe("laptop_awd"), **TREES, **SMALL},
    adapt=smaller(strengths=8, experts=5),
    arms=[arm.name for arm in HERE],
    note="Intervals are over seeds, for one test set of 245 sentences: they say nothing about "
    "other sentences.",
)

study = Study(
    question="Which language model chooses the best trees among a parser's candidates?",
    paper="takase2018doc",
    tables=("Table 11",),
    metric="rerank.bracket_f1",
    columns=("rerank.first_f1", "rerank.oracle_f1", "nll"),
    base="takase2018doc_table2",
    base_arm="first candidate",
    design=table(*HERE, *PAPER),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop),
        "small": small,
        "paper": Scale(
            corpus="folder:ptb_trees",
            column="ptb",
            seeds=5,
            changes={
                **TREES,
                "evaluator.rerank.candidates": "charniak_nbest",
                "evaluator.rerank.num_candidates": 500,
            },
            published=True,
            gpus=1,
        ),
    },
)
