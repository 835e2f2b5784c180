"""A scale of several corpora: one scale for each, `laptop.ptb` of `laptop`, each with its record.

The trials are those of a scale of that corpus alone, so the two share them. Only searches differ:
the searches of each further corpus have the next samplers, since the same suggestions everywhere
would bring one search's luck to every corpus, and a test over corpora takes them for repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ablate.errors import StudyError, wrong_value
from ablate.results.replication import counted
from ablate.store.study_record import one_corpus
from ablate.study.words import Scale


def single_scales(scales: Mapping[str, Scale]) -> dict[str, Scale]:
    """Return the scales of one corpus each, by name: in place of one of several, all of its own."""
    return {
        single: scale
        for name, words in scales.items()
        for single, scale in _singles(name, words, scales)
    }


def corpora_of(name: str, scale: Scale) -> list[str]:
    """Return the names of the scales to run for a scale: its own, or one for each corpus."""
    if not _is_several(scale):
        return [name]
    return [one_corpus(name, corpus) for corpus in scale.corpora]


def renamed(name: str, scale: Scale, suffix: str) -> tuple[str, Scale]:
    """Return the name and the scale of a variant, which keeps its corpus at the end of its name."""
    if not scale.one_of:
        return name + suffix, scale
    of = scale.one_of + suffix
    return one_corpus(of, scale.corpus), replace(scale, one_of=of)


def check_corpora(scales: Mapping[str, Scale]) -> None:
    """Raise for corpora that are named twice, or where the table over them cannot be."""
    for name, scale in scales.items():
        where = f"scale '{name}'"
        if len(set(scale.corpora)) != len(scale.corpora):
            expected = "each corpus once"
            raise StudyError(wrong_value("corpora", tuple(scale.corpora), expected, where))
        if scale.corpora and _several_looks(scale):
            raise StudyError(
                f"{where}: looks stop an arm where one corpus decides it, and the test over "
                "corpora needs every arm on all of them. Instead: leave out either looks or "
                "corpora."
            )
        if _is_several(scale):
            _check_names(name, scale, scales)


def check_single(name: str, scale: Scale, where: str) -> None:
    """Raise for a scale of several corpora where one is planned."""
    if _is_several(scale):
        names = ", ".join(corpora_of(name, scale))
        raise StudyError(
            f"{where}: scale '{name}' is {counted(len(scale.corpora), 'scale')}, one for each "
            f"corpus: {names}. Instead: name one of these, or run all with `ablate study`."
        )


def _is_several(scale: Scale) -> bool:
    return bool(scale.corpora) and not scale.one_of


def _several_looks(scale: Scale) -> bool:
    return len(scale.looks) > 1 or (scale.search is not None and len(scale.search.looks) > 1)


def _singles(name: str, scale: Scale, scales: Mapping[str, Scale]) -> Iterable[tuple[str, Scale]]:
    if not _is_several(scale):
        yield name, scale
        return
    for index, corpus in enumerate(scale.corpora):
        settings_of = scale.settings_of
        if settings_of in scales and corpus in scales[settings_of].corpora:
            settings_of = one_corpus(settings_of, corpus)
        search = scale.search and replace(
            scale.search, first_seed=scale.search.first_seed + index * scale.search.repeats
        )
        yield (
            one_corpus(name, corpus),
            replace(scale, corpus=corpus, one_of=name, search=search, settings_of=settings_of),
        )


def _check_names(name: str, scale: Scale, scales: Mapping[str, Scale]) -> None:
    if scale.corpus != Scale.corpus:
        raise StudyError(
            f"scale '{name}': corpus='{scale.corpus}' and corpora={tuple(scale.corpora)} exclude "
            "each other. Instead: leave out corpus."
        )
    for single in corpora_of(name, scale):
        if single in scales:
            raise StudyError(
                f"scale '{single}' has the name that scale '{name}' gives to one of its corpora. "
                "Instead: another name for either."
            )
