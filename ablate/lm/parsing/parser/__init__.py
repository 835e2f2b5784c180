"""A parser whose lists of candidates can be reranked: a probabilistic grammar and its k best."""
