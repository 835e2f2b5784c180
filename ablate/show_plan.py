"""`ablate plan`: what a study would run, what it would cost, and what is done already."""

from __future__ import annotations

import os
from collections import Counter

from ablate import cost
from ablate import journal as journals
from ablate.config import merge, resolve
from ablate.layout import Grid
from ablate.plan import Plan, make_plan
from ablate.study_file import load
from ablate.workspace import Workspace

WIDTH = 100


def show_plan(file: str, scale: str | None, workspace: Workspace) -> str:
    """The plan as text. Reads the store, writes nothing, imports neither ray nor mlflow."""
    plan = make_plan(load(file), scale, data=workspace.data)
    store = workspace.store
    done = journals.read_all(store, [trial.id for trial in plan.trials])
    return "\n".join(
        [
            f"{plan.record.key}: {plan.record.question}",
            f"corpus {plan.record.corpus} ({plan.corpus_digest}), {plan.scale.seeds} seeds, "
            f"{plan.scale.threads} thread(s) a trial, base arm '{plan.record.base_arm}'",
            "",
            *_arms(plan, done),
            "",
            *_searches(plan),
            *_cost(plan, done, workspace),
        ]
    )


def _arms(plan: Plan, done: dict[str, journals.Journal]) -> list[str]:
    stages = list(dict.fromkeys(place.stage for place in plan.planned))
    counted = Counter((p.arm, p.stage) for p in plan.planned)
    finished = Counter(p.arm for p in plan.planned if _is_done(done.get(p.id)))
    total = Counter(p.arm for p in plan.planned)
    rows = [
        [
            arm.name,
            "" if arm.num_parameters is None else f"{arm.num_parameters:,}",
            *(str(counted[arm.name, stage]) for stage in stages),
            f"{finished[arm.name]} of {total[arm.name]}",
        ]
        for arm in plan.record.arms
    ]
    return Grid(["arm", "parameters", *stages, "done"], rows).lines(WIDTH, "-")


def _searches(plan: Plan) -> list[str]:
    if not plan.searches:
        return []
    words, of_models = plan.searches[0].words, bool(plan.searches[0].parents)
    how = "synchronous" if words.synchronous else "asynchronous"
    tuned = "how to evaluate each finished model" if of_models else "each arm"
    then = (
        "on validation; the best also reads the test split, once."
        if of_models
        else "and its best confirmed on seeds that the search never saw."
    )
    return [
        f"{tuned} is tuned first: {words.repeats} search(es) of {words.trials} trials over "
        f"{words.space} ({words.sampler}, {how}, early stopping: {words.early_stopping or 'no'}),",
        then,
        "",
    ]


def _cost(plan: Plan, done: dict[str, journals.Journal], workspace: Workspace) -> list[str]:
    from ablate.data.corpus import vocabulary_size
    from ablate.data.sizes import num_tokens

    first = next(iter(plan.configs.values()))
    vocabulary = vocabulary_size(first.corpus, workspace.data)
    num_train = num_tokens(first.corpus, workspace.data)["train"]
    parameters = {arm.name: arm.num_parameters or 0 for arm in plan.record.arms}
    work = {
        arm: cost.flops_per_token(config, parameters[arm], vocabulary)
        for arm, config in plan.configs.items()
    }
    left = cost.left_to_do(plan.trials, done)
    trained = [t for t in left if not t.parent_ids("member")]
    tokens = {t.id: cost.training_tokens(resolve(t.values), num_train) for t in trained}
    searched = _of_searches(plan, num_train)
    rate = cost.measured_rate(done.values(), work)
    basis = "from this study's finished trials" if rate else "a guess from this machine's rate"
    rate = rate or cost.probed_rate(plan.scale.threads)
    seconds = sum(tokens[trial.id] * work[trial.arm] for trial in trained) / rate
    seconds += sum(work[arm] * num for arm, _, num in searched) / rate
    workers = max(1, (os.cpu_count() or 1) // plan.scale.threads)
    total = sum(tokens.values()) + sum(num for *_, num in searched)
    begun = f"{len(plan.trials)} trials, {len(plan.trials) - len(left)} done; "
    if more := sum(count for _, count, _ in searched):
        begun += f"searches and their confirmations: {more} more if none stops early, done or not; "
    return [
        f"{begun}{total / 1e6:,.1f}M training tokens left: about "
        f"{duration(seconds / workers)} with {workers} worker(s) ({basis})"
    ]


def _of_searches(plan: Plan, num_train: int) -> list[tuple[str, int, int]]:
    """(arm, trials, training tokens) of each search and what confirms it, none stopped early."""
    found = []
    for search in plan.searches:
        if search.parents:  # ways to evaluate: nothing is trained
            found.append((search.arm, search.words.trials + 1, 0))
            continue
        brief, whole = merge(search.values, search.words.changes), search.values
        trials, seeds = search.words.trials, plan.scale.seeds
        tokens = trials * cost.training_tokens(resolve(brief), num_train)
        tokens += seeds * cost.training_tokens(resolve(whole), num_train)
        found.append((search.arm, trials + seeds, tokens))
    return found


def _is_done(journal: journals.Journal | None) -> bool:
    return journal is not None and journal.outcome is not None


def duration(seconds: float) -> str:
    """90 -> 1.5 min."""
    units = ((86400, "days"), (3600, "hours"), (60, "min"))
    for size, name in units:
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} s"
