"""`ablate trial CONFIG` runs whatever a config describes."""

from __future__ import annotations

from ablate.commands.trial import run_config
from ablate.store import journal as journals
from ablate.store.outcome import Status


def test_a_config_of_an_ngram_model_is_counted(workspace, tmp_path, capsys):
    config = tmp_path / "trigram.toml"
    config.write_text(
        'model = "ngram"\n'
        'corpus = { name = "grammar", train_tokens = 2000, eval_tokens = 300 }\n'
        "ngram = { order = 3 }\n"
    )
    assert run_config(str(config), seed=1, threads=1, workspace=workspace) == 0
    assert "valid_ppl" in capsys.readouterr().out
    (journal,) = journals.read_all(workspace.store).values()
    assert journal.status == Status.COMPLETED and "test_nll" in journal.metrics
