"""The input-to-output gate, Tables 2 and 3: what does a gate buy over a finished language model?

Question   A gate that sees the input word alone, trained by itself over a frozen model: does it
           make LSTMs, variational LSTMs, recurrent highway networks, ensembles of these and
           AWD-LSTMs better, and is there anything left of it beside a cache?
Paper      Takase, Suzuki, Nagata 2017, test perplexities without and with the gate. Table 2 (Penn
           Treebank): LSTM medium 84.0 / 81.1, large 78.6 / 75.5, variational medium 79.1 / 78.1,
           large 74.6 / 74.1, RHN 68.9 / 66.5, tied 66.3 / 64.4, 5 RHNs 63.1 / 62.0, 10 RHNs
           62.3 / 61.4, AWD 56.7 / 56.7, with cache 53.0 / 53.0. Table 3 (WikiText-2): LSTM medium
           96.2 / 93.8, variational 91.8 / 91.0, with cache 66.1 / 65.9, AWD 65.8 / 65.9, with
           cache 51.7 / 51.7.
Run        ablate study studies/iog.py                            laptop: for two cores
           ablate study studies/iog.py --scale short              ours: the medium LSTM, 8 epochs
           ablate study studies/iog.py --scale paper              Table 2, weeks on a GPU
           ablate study studies/iog.py --scale paper_wikitext2    Table 3
           ablate study studies/iog.py --scale paper_5            the ensemble of 5 RHNs
           ablate study studies/iog.py --scale paper_10           the ensemble of 10 (5 are these)
Cost       `ablate plan studies/iog.py [--scale NAME]` says.

A model and the same model with a gate are one training: the gate continues from the trial that
the other arm ends with, which is frozen and runs without dropout. Of an ensemble there is one gate
for all members, trained on their mean probability (the paper does not say on what). AWD-LSTMs are
fine-tuned first. The RHN that the page quotes as of depth 10 has depth 9 here: its authors give its
numbers at that depth (`ablate show spaces zilly2017rhn`). The cache over the variational LSTM has
no published weight and flatness: validation chooses among 12 pairs.

At laptop scale the base models are small and trained by Adam, and their masks are weaker (divided
by 8); AWD-LSTM, whose own optimizer needs hundreds of epochs, is left out. The gate's rate is ten
times the paper's there: in 600 updates, a gate that starts at 1/2 gets nowhere at 0.001.

`short` is the medium LSTM at its full width on whole Penn Treebank, and the gate over it as
published. The LSTM is trained for 8 epochs instead of 39, with the rate halved from the fifth on
(as its authors do for their small model), so it ends above the printed perplexities. Large products
are in bfloat16.
"""

from dataclasses import replace

from ablate import Arm, Scale, Search, Stage, Study, recipe, smaller, smoke, table

MASKS_DIVISOR = 8  # of every regularizer at laptop scale
GATE = Stage("gate", {"regularizer": "none", **recipe("takase2017iog_table1")})
SOONER = {"training.stop_after_worse": 5, "training.max_window_excess": 10}  # finetune.py's
FINETUNE = Stage("finetune", {"optimizer.trigger": "at_once", **SOONER})


def cache(**values: float) -> Stage:
    named = {f"evaluator.cache.{name}": value for name, value in values.items()}
    return Stage("cache", {"evaluator": "cache", **named}, kind="evaluate")


SEARCHED_CACHE = replace(
    cache(), search=Search(space="takase2017iog_text4:variational-wikitext-2", trials=12)
)


def pair(
    name: str,
    base: str,
    model: str,
    before: tuple[Stage, ...] = (),
    after: tuple[Stage, ...] = (),
    printed: tuple[str, str] = ("base", "+IOG"),
) -> tuple[Arm, Arm]:
    """A model, and with a gate over it; `before` the gate and `after` it come further stages."""
    without, gated = printed
    return (
        Arm(name, recipe=base, then=(*before, *after), published=(model, without)),
        Arm(
            f"{name} + IOG",
            recipe=base,
            then=(*before, GATE, *after),
            published=(model, gated),
            against=name,
        ),
    )


def ensemble(num: int) -> tuple[Arm, Arm]:
    """An arm has as many members as the scale has seeds."""
    printed = f"Ensemble of {num} Variational RHNs"
    plain, gated = pair(f"{num} RHNs", "zilly2017rhn:depth-8", printed)
    together = Stage("together", kind="evaluate", over="seeds")
    return replace(plain, then=(together,)), replace(gated, then=(replace(GATE, over="seeds"),))


LSTM = "LSTM (medium, replication)", "LSTM (large, replication)"
VARIATIONAL = "Variational LSTM (medium, replication)", "Variational LSTM (large, replication)"
RHN = "Variational RHN (depth 8, replication)"
AWD = "AWD LSTM + WT (run with authors' code)"

medium = pair("LSTM medium", "zaremba2014:medium", LSTM[0])
variational = pair("variational medium", "gal2016:medium", VARIATIONAL[0])
rhns = (
    *pair("RHN", "zilly2017rhn:depth-8", RHN),
    *pair("RHN tied", "zilly2017rhn:depth-8-tied", RHN, printed=("+WT", "+WT+IOG")),
)
large = (
    *pair("LSTM large", "zaremba2014:large", LSTM[1]),
    *pair("variational large", "gal2016:large", VARIATIONAL[1]),
)
variational_cache = pair(
    "variational medium, cache",
    "gal2016:medium",
    VARIATIONAL[0],
    after=(SEARCHED_CACHE,),
    printed=("+cache2000", "+cache2000+IOG"),
)


def awd(corpus: str, num: int, after: tuple[Stage, ...] = ()) -> tuple[Arm, ...]:
    """AWD-LSTM of a corpus's own settings, and with a cache of `num` states."""
    words = {"base": f"merity2018awd:{corpus}", "model": AWD, "before": (FINETUNE,)}
    named = f"AWD ({corpus})"
    printed = f"+WT+cache{num}", f"+WT+cache{num}+IOG"
    return (
        *pair(named, **words, printed=("+WT", "+WT+IOG")),
        *pair(f"{named}, cache", **words, after=after, printed=printed),
    )


awd_ptb = awd("ptb", 500, (cache(window=500),))
awd_wikitext2 = awd("wikitext-2", 3785, (cache(window=3785, share=0.1279, theta=0.662),))


def quoted(name: str, base: str, published: tuple[str, str], *then: Stage) -> Arm:
    """A model that the page quotes, without a gate."""
    return Arm(name, recipe=base, then=then, published=published)


def grave_cache(size: str) -> Stage:
    """Grave et al.'s cache, with its two weights chosen on validation."""
    return replace(cache(), search=Search(space=f"grave2017_cache:{size}", trials=12))


NAS = "Neural Architecture Search with base 8"
GRAVE = "Neural cache model"
POINTER = "Pointer Sentinel LSTM"
quoted_ones = (
    quoted(
        "pointer sentinel (ptb)",
        "merity2017pointer:ptb",
        (f"{POINTER} (medium) (Merity et al., 2017b)", "base"),
    ),
    quoted("searched cell", "zoph2017nas:untied", (f"{NAS} (Zoph and Le, 2017)", "base")),
    quoted("searched cell, tied", "zoph2017nas:tied", (f"{NAS} + WT (Zoph and Le, 2017)", "+WT")),
    quoted(
        "larger searched cell, tied",
        "zoph2017nas:larger-tied",
        (f"{NAS} + WT (Zoph and Le, 2017)", "+WT (larger)"),
    ),
    quoted(
        "Grave's LSTM, cache of 500",
        "grave2017:ptb",
        (f"{GRAVE} (Grave et al., 2017)", "base"),
        grave_cache("ptb-500"),
    ),
    quoted(
        "RHN of depth 9, tied",  # its authors have 68.1 / 66.0 at that depth
        "zilly2017rhn:depth-9-tied",
        ("Variational RHN (depth 10) + WT (Press and Wolf, 2017)", "+WT"),
    ),
    quoted(
        "AWD (ptb), cache of 2000",
        "merity2018awd:ptb",
        ("AWD LSTM + WT + cache (size = 2000) (Merity et al., 2017a)", "+WT+cache2000"),
        FINETUNE,
        SEARCHED_CACHE,
    ),
)


quoted_on_wikitext2 = (
    quoted(
        "pointer sentinel (wikitext-2)",
        "merity2017pointer:wikitext-2",
        (f"{POINTER} (Merity et al., 2017b)", "base"),
    ),
    *(
        quoted(
            f"Grave's LSTM, cache of {size}",
            "grave2017:wikitext-2",
            (f"{GRAVE} (size = {size}) (Grave et al., 2017)", f"cache{size}"),
            grave_cache(f"wikitext2-{size}"),
        )
        for size in (100, 2000)
    ),
)


def small(values: dict) -> dict:
    """An arm's values at laptop scale: weaker masks, fewer layers, and Adam instead of SGD."""
    sizes = {"backbone.depth": 3, "backbone.last_units": values["embedding.size"]}
    adam = {"optimizer": "adam", "optimizer.learning_rate": 0.01}
    return {
        **smaller(strengths=MASKS_DIVISOR)(values),
        **{name: size for name, size in sizes.items() if name in values},
        **(adam if values["optimizer"] == "sgd" else {}),
    }


def names(*arms: Arm) -> list[str]:
    return [arm.name for arm in arms]


laptop = Scale(
    corpus="grammar",
    seeds=5,
    changes={
        "corpus.train_tokens": 60_000,
        "embedding.size": 32,
        "embedding.initial_range": 0.3,
        "backbone.units": 32,
        "backbone.initial_range": 0.2,
        "training.epochs": 6,
        "training.window": 25,
        "training.batch_size": 20,
        "training.loss_reduction": "mean",
        "training.clip": 1.0,
    },
    adapt=small,
    stage_changes={"gate": {"optimizer.learning_rate": 0.01}},
    arms=names(*medium, *variational, *variational_cache, *rhns, *ensemble(5)),
)
short = Scale(
    corpus="ptb",
    seeds=3,
    changes={"training.epochs": 8, "optimizer.flat_epochs": 4, "optimizer.decay": 2.0},
    arms=names(*medium),
    precision="bfloat16",
    note="The LSTM trains for 8 epochs, where the paper's trained for 39.",
)
paper = Scale(
    corpus="ptb",
    seeds=1,
    arms=names(*medium, *large, *variational, *rhns, *awd_ptb, *quoted_ones),
    published=True,
    gpus=1,
)

study = Study(
    question="What does a gate that sees the input word alone buy over a finished model?",
    paper="takase2017iog",
    tables=("Table 2", "Table 3"),
    base="zaremba2014:medium",
    base_arm="LSTM medium",
    design=table(
        *medium,
        *large,
        *variational,
        *variational_cache,
        *rhns,
        *ensemble(5),
        *ensemble(10),
        *awd_ptb,
        *quoted_ones,
        *quoted_on_wikitext2,
        *awd_wikitext2,
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(
            laptop, seeds=1, arms=names(*medium, *variational_cache, *ensemble(5), *awd_ptb)
        ),
        "short": short,
        "paper": paper,
        "paper_wikitext2": replace(
            paper,
            corpus="wikitext-2",
            arms=names(
                *medium,
                *variational,
                *variational_cache,
                *awd_wikitext2,
                *quoted_on_wikitext2,
            ),
        ),
        "paper_5": replace(paper, seeds=5, arms=names(*ensemble(5))),
        "paper_10": replace(paper, seeds=10, arms=names(*ensemble(10))),
    },
)
