"""What a user reads when one of their files cannot be executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.errors import StudyError
from ablate.trial.user.user_code import executed


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("from ablate.fields import setting", "setting."),
        ("from ablate.registry import register", "register."),
        (
            "from ablate.lm.components.regularizer import Chance, Regularizer",
            "Chance, Regularizer.",
        ),
        ("import ablate.lm.model.regulariser", "Attention, Backbone, Bridge, "),
    ],
)
def test_an_import_of_an_older_version_is_answered_with_todays(
    tmp_path: Path, line: str, names: str
) -> None:
    file = tmp_path / "technique.py"
    file.write_text(f"import math\n{line}\n")
    with pytest.raises(StudyError) as caught:
        executed(file, "technique_of_an_older_version")
    message = str(caught.value)
    assert message.startswith(f"{file}:2: ")
    assert f"Instead: from ablate.lm.components import {names}" in message
