"""The sentences that a trial wrote, in the order of the corpus.

trials/<id>/sentences/<split>.arrow   one sentence for each pair of the split
"""

from __future__ import annotations

from collections.abc import Sequence

from ablate.errors import TrialError
from ablate.store.arrow import read_column, write_columns
from ablate.store.store import Store, remake


def write(store: Store, trial_id: str, split: str, sentences: Sequence[str]) -> None:
    """Store the sentences of a split."""
    import pyarrow as pa

    column = pa.array(list(sentences), pa.large_string())
    write_columns(store, _key(trial_id, split), {"sentence": column})


def kept(store: Store, trial_id: str, split: str) -> bool:
    """Return whether a trial kept sentences of a split."""
    return store.exists(_key(trial_id, split))


def read(store: Store, trial_id: str, split: str, num_sentences: int) -> list[str]:
    """The sentences of a split; there must be `num_sentences` of them."""
    import pyarrow as pa

    column = read_column(store, _key(trial_id, split), "sentence", pa.large_string())
    if column is None:
        raise TrialError(
            f"the store {store.uri} has no sentences of {split} that trial {trial_id} wrote. "
            "Trials with the evaluator `generate` save them: of valid, and of test in an arm's "
            f"final trials. If they were lost: {remake(trial_id)}"
        )
    if len(column) != num_sentences:
        raise TrialError(
            f"trial {trial_id} saved {len(column)} sentences of {split}, which has {num_sentences} "
            "pairs: they cannot be matched one by one."
        )
    return column.to_pylist()


def _key(trial_id: str, split: str) -> str:
    return f"trials/{trial_id}/sentences/{split}.arrow"
