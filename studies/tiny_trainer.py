"""Smoothed labels for a tiny transformer, trained by Hugging Face's `Trainer`: do they help?

Question   A transformer of one layer tells which of two tokens comes first in a line of twelve.
           Does it tell better if its labels are smoothed?
Paper      None. The lines are drawn here, and the model starts from random weights: nothing is
           downloaded.
Run        ablate study studies/tiny_trainer.py        laptop: 3 seeds an arm
Cost       Under a minute on two cores. It needs `pip install transformers accelerate`.

A worked example of a `Trainer` that resumes where it was cut: each epoch is one `Trainer.train()`,
on a model and an optimizer that `run.epochs` saves in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, smoke, table, task

NUM_WORDS, LENGTH = 20, 12
FIRST, SECOND = 1, 2  # the tokens whose order is the label


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    learning_rate: float = setting(0.003, doc="of AdamW", low=0)
    label_smoothing: float = setting(0.0, doc="share spread over both labels", low=0, high=0.9)
    hidden_size: int = setting(32, doc="units of a token's vector", low=4)
    epochs: int = setting(8, doc="passes over the training lines", low=1)


@task(
    "tiny_trainer",
    config=TrainerConfig,
    metrics=(
        Metric("accuracy", better="higher", shown="accuracy in %", factor=100, lowest=0, highest=1),
    ),
)
def train(run):
    import tempfile

    import torch
    from transformers import (  # pyright: ignore[reportMissingImports]
        BertConfig,
        BertForSequenceClassification,
        PrinterCallback,
        Trainer,
        TrainingArguments,
    )

    size = run.config.hidden_size
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=NUM_WORDS,
            hidden_size=size,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=2 * size,
            max_position_embeddings=LENGTH,
        )
    ).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.config.learning_rate)
    splits = {"train": lines(1, 1000), "valid": lines(2, 300), "test": lines(3, 300)}

    def accuracy(split):
        model.eval()
        tokens = torch.stack([line["input_ids"] for line in splits[split]]).to(run.device)
        labels = torch.tensor([line["labels"] for line in splits[split]]).to(run.device)
        with torch.no_grad():
            return (model(tokens).logits.argmax(dim=1) == labels).float().mean().item()

    for epoch in run.epochs(model, optimizer, total=run.config.epochs):
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                num_train_epochs=1,
                per_device_train_batch_size=32,
                label_smoothing_factor=run.config.label_smoothing,
                lr_scheduler_type="constant",
                seed=1000 * run.seed + epoch,  # of the order of the lines, and of dropout
                use_cpu=run.device == "cpu",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            trainer = Trainer(
                model, arguments, train_dataset=splits["train"], optimizers=(optimizer, None)
            )
            trainer.remove_callback(PrinterCallback)
            trained = trainer.train()
        yield {"train_loss": trained.training_loss, "valid_accuracy": accuracy("valid")}
    return {"test_accuracy": accuracy("test")}


def lines(seed, num):
    """Draw lines of tokens, and whether FIRST comes before SECOND in each."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for _ in range(num):
        tokens = torch.randint(3, NUM_WORDS, (LENGTH,), generator=generator)
        one, other = torch.randperm(LENGTH, generator=generator)[:2].tolist()
        tokens[one], tokens[other] = FIRST, SECOND
        drawn.append({"input_ids": tokens, "labels": int(one < other)})
    return drawn


study = Study(
    question="Do smoothed labels help a tiny transformer that `Trainer` trains?",
    base={"task": "tiny_trainer"},
    base_arm="plain",
    design=table(
        Arm("plain"),
        Arm("smoothed", {"tiny_trainer.label_smoothing": 0.1}),
    ),
    scales={"laptop": Scale(seeds=3), "smoke": smoke(Scale(seeds=3))},
)
