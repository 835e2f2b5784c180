"""The input-to-output gate, Table 5: which words does a gate let through after a given word?

Question   After each of some input words, which words have the largest gates?
Paper      Takase, Suzuki, Nagata 2017, Table 5 (Penn Treebank): after a preposition or an article,
           say, the words that may stand there. No numbers: the five words of the largest gates.
Run        ablate study studies/iog_words.py                 laptop: a minute on two cores
           ablate report iog_words                           the words, on the study's page
Cost       `ablate plan studies/iog_words.py [--scale paper]` says; nothing after iog_variants.

Two arms of `iog_variants.py`, and the same trials: what was trained there is not trained again.
"""

from dataclasses import replace

from ablate import Analyze, table
from ablate.study.file import load

variants = load("iog_variants")

study = replace(
    variants,
    columns=(),
    question="Which words does a gate let through after a given word?",
    tables=("Table 5",),
    analyses=(Analyze("gate_words", ("IOG",), published={"published": True}, shows="Table 5"),),
    design=table(*(replace(arm, published=None) for arm in variants.design.arms[:2])),
    name="",
)
