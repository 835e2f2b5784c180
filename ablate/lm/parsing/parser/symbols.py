"""Binary trees over finer symbols than labels, from which a grammar is estimated.

A chain of phrases around a single part is one symbol (`S` over `VP` over a tag). A symbol knows the
label of the phrase that it is in (its parent), and a phrase with more than two parts is split into
its first part and a rest, which remembers the part before it:

    NP in S: DT JJ NN   ->   NP^S -> DT^NP, NP^S|DT;   NP^S|DT -> JJ^NP, NN^NP

Every tree has one such derivation, so the k best derivations are k different trees.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate.lm.parsing.trees import Tree

ROOT = ""  # the parent of a whole tree


@dataclass(frozen=True, order=True)
class Symbol:
    """A chain of labels, outermost first, in a phrase; or the rest of such a phrase."""

    chain: tuple[str, ...]
    parent: str
    after: str = ""  # in a rest: the label before it


@dataclass(frozen=True)
class Binary:
    """A derivation: a symbol over two parts, or over a word, with the chain's tag last."""

    symbol: Symbol
    parts: tuple[Binary, Binary] | None = None
    word: str = ""


def binarised(tree: Tree, parent: str = ROOT) -> Binary:
    """Return the derivation of a tree."""
    chain = [tree.label]
    while len(tree.parts) == 1:
        tree = tree.parts[0]
        chain.append(tree.label)
    symbol = Symbol(tuple(chain), parent)
    if tree.word is not None:
        return Binary(symbol, word=tree.word)
    return _joined(symbol, [binarised(part, chain[-1]) for part in tree.parts])


def _joined(symbol: Symbol, parts: list[Binary]) -> Binary:
    first, *others = parts
    if len(others) == 1:
        return Binary(symbol, (first, others[0]))
    # Phrases that differ only before this label have the same rest.
    rest = Symbol(symbol.chain, symbol.parent, after=first.symbol.chain[0])
    return Binary(symbol, (first, _joined(rest, others)))


def restored(binary: Binary) -> Tree:
    """Return the tree of a derivation."""
    inner = binary.symbol.chain[-1]
    tree = Tree(inner, _parts(binary)) if binary.parts else Tree(inner, word=binary.word)
    for label in reversed(binary.symbol.chain[:-1]):
        tree = Tree(label, (tree,))
    return tree


def _parts(binary: Binary) -> tuple[Tree, ...]:
    if binary.parts is None:
        return (restored(binary),)
    first, second = binary.parts
    return restored(first), *(_parts(second) if second.symbol.after else (restored(second),))
