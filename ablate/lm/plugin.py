"""What language models add to ablate; the entry point of `ablate.plugins` names it."""

from ablate.config.plugins import Plugin
from ablate.config.tasks import COUNTING, EVALUATION, TRAINING
from ablate.lm.slots import DEFAULT_TECHNIQUES, EXAMPLES, LISTED_SLOTS, SLOTS

PLUGIN = Plugin(
    package="ablate.lm",
    kinds="ablate.lm.kinds",
    runners={
        TRAINING: "ablate.lm.training.training:Training",
        EVALUATION: "ablate.lm.training.evaluation:Evaluation",
        COUNTING: "ablate.lm.training.counting:Counting",
    },
    slots=SLOTS,
    listed_slots=LISTED_SLOTS,
    defaults=DEFAULT_TECHNIQUES,
    examples=EXAMPLES,
    techniques="ablate.lm.components",
    commands="ablate.lm.commands",
    analyses="ablate.lm.analysis.of_study",
    compiled="ablate.lm.facts:compiled",
    native=("model/native/*.cpp", "model/native/*.h"),
)
