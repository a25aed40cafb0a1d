"""A small causal LM learns to search from nothing: worked examples, a tokenizer, a model."""
