"""A scale of several corpora, or of a ladder of sizes: one scale for each, each with its record.

`laptop.ptb` is the scale `laptop` on one corpus, `laptop.48` one of its rungs. The trials are those
of a scale of that corpus or size alone, so the two share them. Only searches differ: the searches
of each further corpus have the next samplers, since the same suggestions everywhere would bring one
search's luck to every corpus, and a test over corpora takes them for repetitions. The test over
rungs does not: its repetitions are searches, each with one sampler on every rung.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ablate.errors import StudyError, wrong_value
from ablate.store.replication import counted
from ablate.store.study_record import one_part
from ablate.study.ladder import check_ladder, names_of, on_rung
from ablate.study.words import Arm, Scale


def single_scales(scales: Mapping[str, Scale]) -> dict[str, Scale]:
    """Return the scales of one corpus and size each: in place of one of several, all of its own."""
    return {
        single: scale
        for name, words in scales.items()
        for single, scale in _singles(name, words, scales)
    }


def scales_of(name: str, scale: Scale) -> list[str]:
    """Return the names of the scales to run for a scale: its own, or one for each of several."""
    return [one_part(name, part) for part in _parts(scale)] or [name]


def renamed(name: str, scale: Scale, suffix: str) -> tuple[str, Scale]:
    """Return the name and the scale of a variant, whose corpus or rung stays at the end."""
    if not scale.one_of:
        return name + suffix, scale
    of = scale.one_of + suffix
    return one_part(of, scale.rung or scale.corpus), replace(scale, one_of=of)


def check_several(scales: Mapping[str, Scale], arms: Sequence[Arm]) -> None:
    """Raise for corpora or rungs that are named twice, or where no table over them can be."""
    for name, scale in scales.items():
        where = f"scale '{name}'"
        if len(set(scale.corpora)) != len(scale.corpora):
            expected = "each corpus once"
            raise StudyError(wrong_value("corpora", tuple(scale.corpora), expected, where))
        check_ladder(scale, arms, where)
        what = "corpora" if scale.corpora else "ladder" if scale.ladder else ""
        if what and _several_looks(scale):
            each = "corpus" if scale.corpora else "rung"
            all_of_them = "corpora" if scale.corpora else "rungs"
            raise StudyError(
                f"{where}: looks stop an arm where one {each} decides it, and the test over "
                f"{all_of_them} needs every arm on all of them. Instead: leave out either looks or "
                f"{what}."
            )
        if _parts(scale):
            _check_names(name, scale, scales)


def check_single(name: str, scale: Scale, where: str) -> None:
    """Raise for a scale of several corpora or rungs where one is planned."""
    if _parts(scale):
        names, each = scales_of(name, scale), "rung" if scale.ladder else "corpus"
        raise StudyError(
            f"{where}: scale '{name}' is {counted(len(names), 'scale')}, one for each "
            f"{each}: {', '.join(names)}. Instead: name one of these, or run all with `ablate "
            "study`."
        )


def _parts(scale: Scale) -> Sequence[str]:
    """The corpora or rungs that a scale is to be split into."""
    if scale.one_of:
        return ()
    return names_of(scale.ladder) if scale.ladder else scale.corpora


def _several_looks(scale: Scale) -> bool:
    return len(scale.looks) > 1 or (scale.search is not None and len(scale.search.looks) > 1)


def _singles(name: str, scale: Scale, scales: Mapping[str, Scale]) -> Iterable[tuple[str, Scale]]:
    parts = _parts(scale)
    if not parts:
        yield name, scale
    for index, part in enumerate(parts):
        other = scales.get(scale.settings_of)
        same = other is not None and part in _parts(other)
        settings_of = one_part(scale.settings_of, part) if same else scale.settings_of
        one = replace(scale, one_of=name, settings_of=settings_of)
        one = on_rung(one, index) if scale.ladder else _on_corpus(one, index)
        yield one_part(name, part), one


def _on_corpus(scale: Scale, index: int) -> Scale:
    search = scale.search and replace(
        scale.search, first_seed=scale.search.first_seed + index * scale.search.repeats
    )
    return replace(scale, corpus=scale.corpora[index], search=search)


def _check_names(name: str, scale: Scale, scales: Mapping[str, Scale]) -> None:
    if scale.corpora and scale.corpus != Scale.corpus:
        raise StudyError(
            f"scale '{name}': corpus='{scale.corpus}' and corpora={tuple(scale.corpora)} exclude "
            "each other. Instead: leave out corpus."
        )
    for single in scales_of(name, scale):
        if single in scales:
            raise StudyError(
                f"scale '{single}' has the name that scale '{name}' gives to one of its "
                f"{'rungs' if scale.ladder else 'corpora'}. Instead: another name for either."
            )
