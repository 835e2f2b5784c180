"""`make test-paper`: each training of every `paper` scale is built for real and takes one step.

A later stage, a gate as a rule, goes on from models that are as they were drawn. And each study
runs from its file as shipped: every arm of the scale `smoke`, of which `make test` trains two.

Not among the usual tests, for it takes memory and minutes. The text is not the paper's, of which
only the vocabulary's size is needed (`num_words`): every word comes once, in a random order.
"""

from __future__ import annotations

import itertools
import math
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate import run
from ablate.config.config import Config
from ablate.config.identity import Parent, Trial, make_trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.kinds import PAIRS
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.training.training import Training
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.study.arms import arm_values
from ablate.study.file import load
from ablate.study.make_record import arm_stages
from ablate.study.several import scales_of
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.trial.checkpoint import write_weights
from ablate.trial.task import Place
from tests.support import places

FILES = sorted((places.STUDIES).glob("*.py"))
ROWS = 200  # steps of a batch's rows that there are


@dataclass(frozen=True)
class Case:
    """A training, and what it goes on from: one model of the config before it, or several."""

    config: Config
    before: Config | None = None
    num_bases: int = 0  # under one gate; 0: its weights are gone on from

    @property
    def identity(self) -> tuple:
        return self.config.identity, self.before and self.before.identity, self.num_bases


def cases() -> Iterator[tuple[str, Case]]:
    """What the arms train, stage by stage, each kind once."""
    seen = []
    for file in FILES:
        study = load(file)
        for name, scale in study.scales.items():
            if not name.startswith("paper"):
                continue
            for arm in study.design.arms:
                if scale.arms is not None and arm.name not in (*scale.arms, study.base_arm):
                    continue
                for stage, case in _stages(study, scale, arm):
                    if case.config.kind.assembles and case.identity not in seen:
                        seen.append(case.identity)
                        yield f"{file.stem}@{name}: {arm.name}{stage}", case


def _stages(study: Study, scale: Scale, arm: Arm) -> Iterator[tuple[str, Case]]:
    values = arm_values(study, scale, arm)
    case = Case(resolve(values))
    yield "", case
    for stage in arm_stages(scale, arm):
        values = merge(values, stage.changes)
        if stage.kind == "train":
            num_bases = scale.seeds if stage.over == "seeds" else 0
            case = Case(resolve(values), case.config, num_bases)
            yield f", {stage.name}", case


CASES = list(cases())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Gone afterwards: models at full size would fill a disk."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.usefixtures("without_pages", "without_mlflow")
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_study_runs_from_its_file_as_shipped(file, workspace):
    study = load(file)
    for scale in scales_of("smoke", study.scales["smoke"]):
        summary = run(study, scale, workspace=str(workspace.folder), local=True)
        result = {arm.name: len(arm.values) for arm in summary.arms}
        assert all(result.values()), result


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_one_step_at_full_size(case, num_words, folder):
    vocabulary = num_words(case.config.corpus)
    text = _text_folder(case.config, vocabulary, folder)
    place = Place(Store(folder), str(folder))
    parents = tuple(_drawn(case, place, text))
    training = Training(_trial(case.config, text, parents=parents), place)
    assert training.model.shapes.vocabulary == vocabulary
    before = _parameters(training.model)
    training.model.train()
    training._train(training.reader.update(0, training.model))
    assert math.isfinite(training.nll_sum.item())
    after = _parameters(training.model)
    assert all(torch.isfinite(p).all() for p in after.values())
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    if case.config.training.only_gate:
        assert all(name.startswith("gate.") for name in moved), moved


def _drawn(case: Case, place: Place, text: str) -> Iterator[Parent]:
    """What is gone on from: models that are as they were drawn, with weights in the store."""
    if case.before is None:
        return
    for seed in range(1, max(case.num_bases, 1) + 1):
        trial = _trial(case.before, text, seed=seed)
        write_weights(place.store, trial, Training(trial, place).model.state_dict())
        Journal(trial).write(place.store)
        yield Parent("base" if case.num_bases else "start", trial.id)


def _parameters(model: LanguageModel) -> dict[str, Tensor]:
    """A copy of all, those of the models under a gate among them."""
    parts = {"": model, **{f"member{i}.": m for i, m in enumerate(getattr(model, "members", ()))}}
    return {
        f"{part}{name}": parameter.detach().clone()
        for part, module in parts.items()
        for name, parameter in module.named_parameters()
    }


def _trial(config: Config, text: str, seed: int = 1, parents: tuple[Parent, ...] = ()) -> Trial:
    """The config's training on another text."""
    values = {**config.flat, "corpus.name": text, "corpus.lowercase": False, "corpus.min_count": 1}
    if config.kind.reads == PAIRS:
        values |= {"corpus.merges": None, "corpus.source": None, "corpus.target": None}
    else:
        values |= {"corpus.train_tokens": None, "corpus.train_slice": "first"}
    found = resolve(values)
    digest = corpus_digest(found.corpus, Path(text).parent)
    return make_trial(found, values=values, seed=seed, corpus_digest=digest, parents=parents)


def _text_folder(config: Config, vocabulary: int, folder: Path) -> str:
    """A text of as many words, or letters; of pairs, on both sides."""
    text = folder / "text"
    text.mkdir()
    if config.kind.reads == PAIRS:
        lines = _sentences(vocabulary)
        for split, side in itertools.product(("train", "valid", "test"), ("src", "tgt")):
            (text / f"{split}.{side}").write_text(lines, encoding="utf-8")
        return str(text)
    letters = config.corpus.level == "character"
    for split in ("train", "valid", "test"):
        (text / f"{split}.txt").write_text(_text(config, vocabulary, letters), encoding="utf-8")
    return str(text)


def _sentences(vocabulary: int) -> str:
    """Sentences of 20 words, so that every word is there; <eos> and <unk> are two more."""
    words = [f"w{i}" for i in range(vocabulary - 2)]
    return "".join(f"{' '.join(words[i : i + 20])}\n" for i in range(0, len(words), 20))


def _text(config: Config, vocabulary: int, letters: bool) -> str:
    """All words and then some, so that the rows of a batch are long enough; <eos> is one more."""
    words = [chr(0x4E00 + i) if letters else f"w{i}" for i in range(vocabulary - 1)]
    more = config.training.batch_size * ROWS
    order = words + random.Random(1).choices(words, k=more)
    return ("" if letters else " ").join(order) + "\n"
