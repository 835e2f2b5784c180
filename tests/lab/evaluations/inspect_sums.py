"""Inspect with a model of ours: python inspect_sums.py SKILL SEED NUM FORMAT FOLDER."""

from __future__ import annotations

import re
import sys
from typing import Any

from answers import knows, sums
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate


def main(skill: float, seed: int, num: int, form: str, folder: str) -> None:
    samples = [
        Sample(id=at, input=f"What is {a} + {b}?", target=str(a + b), metadata={"half": at % 2})
        for at, (a, b) in enumerate(sums(num))
    ]

    def answer(messages: Any, *_: Any) -> ModelOutput:
        a, b = map(int, re.findall(r"\d+", messages[-1].text))
        text = str(a + b) if knows(skill, seed, (a, b)) else "I do not know"
        output = ModelOutput.from_content("mockllm/sums", text)
        # Without it, Inspect counts tokens with a file that it downloads.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    evaluate(
        Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(), name="sums"),
        model=get_model("mockllm/sums", custom_outputs=answer),
        log_dir=folder,
        log_format=form,
        display="none",
    )


if __name__ == "__main__":
    skill, seed, num, form, folder = sys.argv[1:]
    main(float(skill), int(seed), int(num), form, folder)
