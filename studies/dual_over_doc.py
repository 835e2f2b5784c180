"""What does a dual bridge add to DOC? No paper asked.

Question   Oliva et al.'s dual layer shows the head the last word once more, beside the recurrent
           output. So do DOC's distributions from the embedding, in another way. Do they add up?
Paper      None; to compare with: DOC's 54.62 / 52.87 (Takase et al. 2018, Table 6).
Run        ablate study studies/dual_over_doc.py                 laptop: for two cores
           ablate study studies/dual_over_doc.py --scale paper   days on a GPU
Cost       `ablate plan studies/dual_over_doc.py [--scale paper]` says.

A factorial: the bridge, and five of the twenty distributions from layer 2, from the embedding, or
from the last layer alone. The bridge feeds those of the last layer, and its output is as wide as a
word vector; its dropout is that of the last layer, which it follows.
"""

from dataclasses import replace

from ablate import Study, factorial, smoke
from ablate.study.file import load

BRIDGES = {
    "none": {"bridge": "none"},
    "dual": {"bridge": "dual", "bridge.output_dropout": 0.4},
}
SOURCES = {
    "layer 2": {"head.experts": (15, 5, 0, 0)},
    "embedding": {"head.experts": (15, 0, 0, 5)},
    "none": {"head.experts": (20, 0, 0, 0)},
}

scales = load("doc_balance").scales
laptop, paper = scales["laptop"], replace(scales["paper"], seeds=5, published=False)

study = Study(
    question="What does a dual bridge add to DOC?",
    base="takase2018doc_table2",
    base_arm="bridge none, further source layer 2",
    design=factorial({"bridge": BRIDGES, "further source": SOURCES}),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
