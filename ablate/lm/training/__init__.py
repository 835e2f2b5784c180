"""Training and judging a language model, or counting an n-gram model."""
