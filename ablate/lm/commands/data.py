"""List, get, add or verify corpora."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.config.data_source import described, source_of
from ablate.errors import ConfigError, CorpusError, unknown
from ablate.lm.data import own, pair_texts, sources
from ablate.lm.data.corpus import open_corpus
from ablate.lm.data.published import PUBLISHED, SPLITS
from ablate.lm.data.texts import GRAMMAR_TREES, custom_folder, find_text
from ablate.lm.parsing.bracketing import first_and_best
from ablate.lm.parsing.candidates import make_candidates
from ablate.lm.parsing.n_best import JUDGED, SUFFIX, read_candidates
from ablate.lm.sections import CorpusConfig, PairsConfig

MEGABYTE = 1e6
ACTIONS = ("list", "add", "get", "verify", "candidates")
EXAMPLE = "ablate data get ptb --from ~/ptb"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate data`."""
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument("name", nargs="?", help="corpus name (verify: default all)")
    parser.add_argument(
        "path", nargs="?", help="add: a text file, .parquet, .jsonl, or a folder of these"
    )
    parser.add_argument(
        "--shares",
        type=_shares,
        metavar="90,5,5",
        help="add: per cent of the words for train, valid and test, in contiguous blocks of lines",
    )
    parser.add_argument(
        "--field", metavar="NAME", help="add: the column of Parquet, or the field of JSON lines"
    )
    parser.add_argument(
        "--from", dest="source", metavar="DIR", help="import the files from a folder"
    )
    parser.add_argument(
        "--k",
        type=_options.count,
        default=50,
        metavar="N",
        help="candidates: how many of each sentence (default: 50)",
    )
    _options.add_locations(parser, "workspace")


def run(options: argparse.Namespace) -> int:
    """Run one action, and print its result."""
    name, folder = options.name, _options.workspace(options).data
    if options.action == "list":
        print(_listing(folder))
    elif options.action == "verify":
        for corpus in [name] if name else _ready(folder):
            # Of a folder of the user's own, no digest is known to compare with.
            pinned = " as pinned" if custom_folder(corpus) is None else ""
            for file, digest in sources.verify(corpus, folder).items():
                print(f"{corpus}: {file}: {digest}{pinned}")
        for path in sources.verify_encoded(folder):
            print(f"encoded: {path}: as sealed")
    elif options.action == "add":
        _add(options, folder)
    elif name is None:
        known = sources.fetched() if options.action == "get" else (*_named_trees(), "folder:PATH")
        raise ConfigError(
            f"ablate data {options.action} needs a NAME. Expected one of: {', '.join(known)}."
        )
    elif options.action == "candidates":
        _make_candidates(name, Path(folder), options.k)
    else:
        _get(name, options.source, folder)
    return 0


def _shares(text: str) -> tuple[float, ...]:
    """Read the shares of train, valid and test."""
    try:
        shares = tuple(float(share) for share in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) != len(SPLITS) or min(shares) <= 0 or not 99.9 < sum(shares) < 100.1:
        raise argparse.ArgumentTypeError(
            f"{text[:40]}: expected three numbers above 0 that make 100, such as 90,5,5"
        )
    return shares


def _add(options: argparse.Namespace, folder: str) -> None:
    """Import a text, encode it, and print its splits and its numbers of tokens."""
    if options.name is None or options.path is None:
        raise ConfigError(
            "ablate data add needs a NAME and a PATH, such as: ablate data add my_text text.txt"
        )
    added = own.add(options.name, options.path, folder, options.shares, options.field)
    names = zip(SPLITS, added.shares, strict=False)
    split = ", ".join(f"{share:g}% {name}" for name, share in names)
    how = f"split into contiguous blocks of whole lines: {split}" if split else "split as it was"
    print(f"{added.name}: {added.source}, {how}")
    print(f"{added.name}: {described(source_of(CorpusConfig(name=added.name), folder))}")
    print(f'use it: Scale(corpus="{added.name}"), or --set corpus.name={added.name}')


def _get(name: str, source: str | None, folder: str) -> None:
    """Download or import the files, and encode them so that the first trial need not."""
    for part, path in sources.get(name, folder, source, progress=_progress).items():
        print(f"{name}: {part} in {path}")
    if name in pair_texts.names():
        _encode_pairs(name, folder)
        return
    if name in PUBLISHED and not PUBLISHED[name].num_tokens:
        print(f"{name}: encoded when it is first read, at the study's corpus.level")
        return
    level = find_text(name, Path(folder)).level
    corpus = open_corpus(CorpusConfig(name=name, level=level), Path(folder))
    tokens = ", ".join(f"{len(ids):,} {split}" for split, ids in corpus.splits.items())
    print(f"{name}: {tokens} tokens, {corpus.num_words:,} words, encoded")


def _encode_pairs(name: str, folder: str) -> None:
    pairs = open_corpus(PairsConfig(name=name), Path(folder))
    numbers = ", ".join(f"{len(pairs.sentences(split)[0]):,} {split}" for split in pairs.splits)
    words = f"{pairs.num_source_words:,} words to read and {pairs.num_words:,} to write"
    print(f"{name}: {numbers} pairs, {words}, encoded")


def _make_candidates(name: str, folder: Path, num: int) -> None:
    """Parse valid and test, and say how good the candidates are."""
    known = [*_named_trees(), "folder:PATH"]
    if name not in known and custom_folder(name) is None:
        raise CorpusError(unknown("corpus of trees", name, known))
    lists = make_candidates(name, folder, num, progress=_parsing)
    corpus = source_of(CorpusConfig(name=name, level="tree"), folder).open()
    for split in JUDGED:
        trees = corpus.trees(split)
        with (lists / f"{split}{SUFFIX}").open(encoding="utf-8") as lines:
            read = read_candidates(lines, [tree.words for tree in trees], split)
        # The best candidates bound what any reranking of these lists can reach.
        first, best = first_and_best(trees, read)
        print(
            f"{name}: {split}: {len(trees):,} sentences, {sum(map(len, read)):,} candidates, F1 of "
            f"the first {first.f1:.2f}, of the best {best.f1:.2f}"
        )
    print(f"{name}: candidates in {lists}")


def _parsing(done: int, of: int) -> None:
    _options.show_progress(f"{done:,} of {of:,} sentences parsed", over=done == of)


def _named_trees() -> list[str]:
    return [
        GRAMMAR_TREES,
        *(corpus.name for corpus in PUBLISHED.values() if corpus.level == "tree"),
    ]


def _progress(file: str, done: int, total: int | None) -> None:
    whole = f" of {total / MEGABYTE:.1f}" if total else ""
    _options.show_progress(f"{file}: {done / MEGABYTE:.1f}{whole} MB", over=done == total)


def _ready(folder: str) -> list[str]:
    return [c.name for c in sources.listing(folder) if c.state in ("ready", "built in", "damaged")]


def _listing(folder: str) -> str:
    rows = [
        [
            corpus.name,
            corpus.state,
            *(_size(corpus, split) for split in SPLITS),
            "" if corpus.vocabulary is None else f"{corpus.vocabulary:,}",
            corpus.licence,
        ]
        for corpus in sources.listing(folder)
    ]
    titles = ["corpus", "state", "train", "valid", "test", "words", "licence"]
    return "\n".join(text.lines(table_of(titles, rows)))


def _size(corpus: sources.Listed, split: str) -> str:
    """The tokens of a text, or the number of pairs of sentences."""
    if corpus.num_pairs:
        return f"{corpus.num_pairs[split]:,} pairs"
    number = corpus.num_tokens.get(split)
    return "" if number is None else f"{number:,}"
