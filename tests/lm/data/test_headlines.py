from ablate.lm.data import headlines

ROWS = [
    ("Oil falls (Reuters)", " NEW YORK (Reuters) - Oil fell by  #36;2 on Tuesday, it was said"),
    (
        "A  quot;new quot; way (Update1) (AP)",
        "AP - They #39;ll try the new way in the U.S. Senate.",
    ),
    ("Game (in space) over", "The team\\of the year lost badly again today. It was sad."),
    ("Short", "What now? Nobody has an answer to that question yet. None."),
    ("Tags", "&lt;p&gt;Ask Mr. Smith why he did not &lt;b&gt;sell&lt;/b&gt; it. He knows."),
]
SOURCES = [
    "Oil fell by $2 on Tuesday, it was said",
    "They'll try the new way in the U.S. Senate.",
    "The team of the year lost badly again today.",
    "What now? Nobody has an answer to that question yet.",
    "Ask Mr. Smith why he did not sell it.",
]
TITLES = ["Oil falls", 'A "new" way', "Game (in space) over", "Short", "Tags"]


def csv(rows):
    quoted = ('"3","{}","{}"\n'.format(*(side.replace('"', '""') for side in row)) for row in rows)
    return "".join(quoted)


def test_titles_and_first_sentences_are_cleaned():
    text = csv(ROWS * 2)  # the first 8 of 10 rows train
    assert headlines.pairs(text, "train") == ((SOURCES * 2)[:8], (TITLES * 2)[:8])
    assert headlines.pairs(text, "valid") == (SOURCES[3:4], TITLES[3:4])
    assert headlines.pairs(text, "test") == (SOURCES[4:], TITLES[4:])


def test_a_row_without_a_side_is_left_out():
    empty = [("(AP)x", "Text."), ("Title", "<b>")] * 5
    assert headlines.pairs(csv(empty), "valid") == (["Text."], ["(AP)x"])
