import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import CorpusError
from ablate.lm.data.batches import (
    batchify,
    circular_starts,
    circular_window,
    drawn_lengths,
    rotated,
    spread,
    take,
    whole_windows,
    window_lengths,
    windows,
)
from tests.support import places

GOLDEN = places.VECTORS / "batching.npz"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as arrays:
        return dict(arrays)


def test_golden_rows_and_windows(golden):
    rows = batchify(torch.arange(100, 138, dtype=torch.int32), 3)
    assert np.array_equal(rows, golden["batched"])
    cut = window_lengths(np.random.default_rng(0), len(rows), 4, variable=False)
    assert len(cut) == 3
    for index, (start, length, _) in enumerate(cut):
        inputs, targets = take(rows, start, length)
        assert np.array_equal(inputs, golden[f"data{index}"])
        assert np.array_equal(targets.reshape(-1), golden[f"target{index}"])


def test_golden_lengths(golden):
    lengths = drawn_lengths(np.random.RandomState(141), 70, variable=True)
    assert [next(lengths) for _ in range(200)] == golden["seq_lens"].tolist()


@given(st.integers(4, 400), st.integers(1, 40))
def test_rows_are_contiguous_pieces(num_tokens, rows):
    stream = torch.arange(num_tokens)
    if num_tokens // rows < 2:
        with pytest.raises(CorpusError, match="smaller batch size"):
            batchify(stream, rows)
        return
    batched = batchify(stream, rows)
    assert batched.shape == (num_tokens // rows, rows)
    assert torch.equal(batched.t().reshape(-1), stream[: batched.numel()])


@given(st.integers(2, 900), st.integers(1, 90), st.booleans(), st.integers(0, 99))
def test_training_predicts_every_target_once_but_perhaps_the_last(
    num_steps, window, variable, seed
):
    cut = window_lengths(np.random.default_rng(seed), num_steps, window, variable, 20)
    seen = [step for w in cut for step in range(w.start + 1, w.start + w.length + 1)]
    assert seen == list(range(1, len(seen) + 1))
    assert num_steps - 2 <= len(seen) <= num_steps - 1
    assert all(w.length == w.drawn for w in cut[:-1])
    assert all(1 <= w.length <= w.drawn for w in cut)


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(2, 100))
def test_windows_follow_the_loop_of_awd(lengths, num_steps):
    """The published loop, written out: `while i < n - 1 - 1: ... i += seq_len`."""
    expected, i = [], 0
    for length in lengths:
        if not i < num_steps - 1 - 1:
            break
        expected.append((i, min(length, num_steps - 1 - i)))
        i += length
    assert [(w.start, w.length) for w in windows(num_steps, lengths)] == expected


@given(num_tokens=st.integers(50, 3000), rows=st.integers(1, 20), window=st.integers(1, 20))
def test_zarembas_rows_are_spread_and_his_windows_whole(num_tokens, rows, window):
    """His script counts from 1: start = round((i - 1) S / B) + 1."""
    stream = torch.arange(num_tokens)
    cut = spread(stream, rows)
    length = num_tokens // rows
    assert cut.shape == (length, rows)
    for row in range(rows):
        start = math.floor(row * num_tokens / rows + 0.5)
        assert torch.equal(cut[:, row], stream[start : start + length])
    if length <= window:
        with pytest.raises(CorpusError, match="too short for one window"):
            whole_windows(length, window)
        return
    cut_windows = whole_windows(length, window)
    assert [w.start for w in cut_windows] == [window * i for i in range((length - 1) // window)]
    assert {(w.length, w.drawn) for w in cut_windows} == {(window, window)}


def test_variable_lengths_have_awds_distribution():
    lengths = drawn_lengths(np.random.default_rng(5), 70, variable=True, max_excess=3)
    drawn = np.array([next(lengths) for _ in range(20_000)])
    assert drawn.min() >= 5 and drawn.max() == 73
    assert math.isclose((drawn < 52).mean(), 0.05, abs_tol=0.01)


@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 2**31))
def test_a_rotated_row_has_the_same_tokens_from_its_start_on(num_steps, num_rows, seed):
    rows = torch.arange(num_steps * num_rows).view(num_rows, num_steps).t()
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(num_steps, (num_rows,), generator=generator)
    shuffled = rotated(rows, starts)
    for row, start in enumerate(starts.tolist()):
        column = rows[:, row].tolist()
        assert shuffled[:, row].tolist() == column[start:] + column[:start]


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 12), st.floats(0, 0.999))
def test_a_circular_row_reads_the_text_over_and_over(num_tokens, rows, window, shift):
    """Whatever the row: the text, from its start on, again and again, by an explicit loop."""
    stream = torch.arange(num_tokens, dtype=torch.int32) % 7
    starts = circular_starts(stream, rows, 3, shift)
    windows = [circular_window(stream, starts, step, window) for step in range(0, 90, window)]
    for row, start in enumerate(starts.tolist()):
        read = [token for cut in windows for token in cut[:-1, row].tolist()]
        assert read == [int(stream[(start + step) % num_tokens]) for step in range(len(read))]
        for cut, after in itertools.pairwise(windows):
            assert cut[-1, row] == after[0, row], "the last target is the next input"


def test_circular_rows_start_at_the_ends_of_evenly_spaced_sentences():
    """Twelve sentences of three tokens in four rows: every third sentence."""
    stream = torch.tensor([5, 6, 0] * 12)
    assert circular_starts(stream, 4, 0, 0.0).tolist() == [2, 11, 20, 29]
    assert circular_starts(stream, 4, 0, 0.5).tolist() == [20, 29, 2, 11]
    assert circular_starts(stream, 4, None, 0.0).tolist() == [0, 9, 18, 27]
    assert circular_starts(stream, 4, 9, 0.0).tolist() == [0, 9, 18, 27], "no sentence ends"
