"""Shifted images or dropout: does either help a small convolutional network on digits?

Question   A network of two convolutions sees a thousand digits of 8 x 8 pixels: does it read others
           better if each image is moved by up to a pixel whenever it is seen, or with dropout?
Paper      None. The digits are the 1,797 that come with scikit-learn.
Run        ablate study studies/digits_cnn.py        laptop: 5 seeds an arm
Cost       Under a minute on two idle cores, a minute and a half on busy ones.

A worked example of a function in plain torch that resumes where it was cut: `run.epochs` saves the
model and the optimizer, and `torch`'s own random numbers are seeded again for every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate import Arm, Metric, Scale, Study, setting, smoke, table, task


@dataclass(frozen=True, kw_only=True)
class CnnConfig:
    learning_rate: float = setting(0.003, doc="of Adam", low=0)
    shift: bool = setting(False, doc="move each training image by up to a pixel")
    dropout: float = setting(0.0, doc="share of the features dropped", low=0, high=0.9)
    channels: int = setting(16, doc="channels of the first convolution", low=1)
    epochs: int = setting(6, doc="passes over the training images", low=1)
    batch_size: int = setting(64, doc="images an update", low=1)


@task(
    "digits_cnn",
    config=CnnConfig,
    metrics=(
        Metric("accuracy", better="higher", shown="accuracy in %", factor=100, lowest=0, highest=1),
    ),
)
def train(run):
    import torch
    from torch import nn
    from torch.nn import functional as F

    config, device = run.config, run.device
    splits = {name: (x.to(device), y.to(device)) for name, (x, y) in digits().items()}
    model = nn.Sequential(
        nn.Conv2d(1, config.channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(config.channels, 2 * config.channels, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(config.dropout),
        nn.Linear(32 * config.channels, 10),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    images, labels = splits["train"]

    def accuracy(split):
        model.eval()
        with torch.no_grad():
            x, y = splits[split]
            return (model(x).argmax(dim=1) == y).float().mean().item()

    for _ in run.epochs(model, optimizer, total=config.epochs):
        model.train()
        for rows in torch.randperm(len(images)).split(config.batch_size):
            batch = images[rows]
            if config.shift:
                batch = shifted(batch)
            loss = F.cross_entropy(model(batch), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield {"train_loss": loss.item(), "valid_accuracy": accuracy("valid")}
    return {"test_accuracy": accuracy("test")}


def shifted(images):
    """Move each image by -1, 0 or 1 pixel in both directions; what comes in is black."""
    import torch
    from torch.nn import functional as F

    num, _, height, width = images.shape
    down = torch.arange(height) + torch.randint(0, 3, (num, 1))
    right = torch.arange(width) + torch.randint(0, 3, (num, 1))
    padded = F.pad(images, (1, 1, 1, 1))
    which = torch.arange(num)[:, None, None]
    return padded[which, 0, down[:, :, None], right[:, None, :]].unsqueeze(1)


def digits():
    """The images of train, valid and test, in the same parts for every trial."""
    import torch
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = {"train": order[:1000], "valid": order[1000:1400], "test": order[1400:]}
    return {name: (images[rows], labels[rows]) for name, rows in parts.items()}


study = Study(
    question="Do shifted images or dropout help a small convolutional network on digits?",
    base={"task": "digits_cnn"},
    base_arm="plain",
    design=table(
        Arm("plain"),
        Arm("shifted", {"digits_cnn.shift": True}),
        Arm("dropout", {"digits_cnn.dropout": 0.3}),
    ),
    scales={"laptop": Scale(seeds=5), "smoke": smoke(Scale(seeds=5))},
)
