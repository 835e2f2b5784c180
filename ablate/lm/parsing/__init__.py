"""Parse reranking: trees as a text, a parser's candidates for each sentence, and bracket F1.

A language model of plain text imports none of this (`tests/test_imports.py`).
"""
