"""The imports of a technique's author: the slots' contracts, and the data that flows between them.

    from ablate.lm.components import Chance, Regularizer, register, setting

The shipped techniques, one file each, import the same: `components/<slot>/<technique>.py`.
"""

from ablate.config.fields import setting
from ablate.config.registry import register
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.evaluator import Evaluator, Reading
from ablate.lm.model.flow import (
    Draw,
    Features,
    GateSignal,
    Memory,
    Mixture,
    Pass,
    Past,
    Pointer,
    Shapes,
    State,
    TrainingText,
)
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.loss import Loss
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.optimizer import Optimizer
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.model.schedule import FallingConfig, Progress, Schedule, ScheduleConfig, Stepwise
from ablate.lm.model.slots import (
    Attention,
    Backbone,
    Bridge,
    Encoder,
    Gate,
    Head,
    Outputs,
    Words,
)
from ablate.lm.model.width import by_width, first_range

__all__ = [
    "Attention", "Backbone", "Bridge", "Chance", "CombinationError", "Draw", "Encoder",
    "EncoderDecoder", "Evaluator", "FallingConfig", "Features", "Gate", "GateSignal", "Head",
    "LanguageModel", "Loss", "Masks", "Memory", "Mixture", "Optimizer", "Outputs", "Pass",
    "Past", "Pointer", "Progress", "Reading", "Regularizer", "Schedule", "ScheduleConfig",
    "Shapes", "State", "Stepwise", "Streams", "TrainingText", "Words", "by_width", "first_range",
    "register", "setting",
]  # fmt: skip
