"""What a trial printed is stored up to a length, over all of its attempts."""

from __future__ import annotations

import pytest

from ablate.errors import DamagedError
from ablate.store import printed
from ablate.store.printed import MOST, Printed
from ablate.store.store import Store


def test_a_short_text_is_whole(tmp_path):
    store, text = Store(str(tmp_path)), Printed()
    assert printed.read(store, "a") is None and not text
    text.add(["one\n", "\n"])
    printed.write(store, "a", text, ["unfinished"])
    assert printed.read(store, "a") == "one\n\nunfinished\n"


@pytest.mark.parametrize("times", [1, 3])  # written, read and continued
def test_of_a_long_text_the_first_and_the_last_lines_are_stored(tmp_path, times):
    store, lines = Store(str(tmp_path)), [f"line {n}\n" for n in range(30_000)]
    for part in range(times):
        text = printed.continued(store, "a")
        text.add(lines[part::times] if times == 1 else lines[10_000 * part : 10_000 * (part + 1)])
        printed.write(store, "a", text)
    stored = printed.read(store, "a")
    assert stored is not None
    first, gap, last = stored.partition("[... ")
    number, _, last = last.partition(" characters are not stored ...]\n")
    whole = "".join(lines)
    assert gap and whole.startswith(first) and whole.endswith(last)
    assert MOST - 20 < len(first) <= MOST and MOST - 20 < len(last) <= MOST
    assert int(number.replace(",", "")) == len(whole) - len(first) - len(last)


def test_lines_stay_in_order(tmp_path):
    text = Printed()
    text.add(["a" * (MOST - 1) + "\n", "bb\n", "c\n"])
    assert list(text.last) == ["bb\n", "c\n"]


def test_a_damaged_file_is_named_and_costs_no_result(tmp_path):
    store = Store(str(tmp_path))
    store.write_json("trials/a/printed.json", {"first": 1})
    with pytest.raises(DamagedError, match="its results are not"):
        printed.read(store, "a")
