"""A small causal LM that knows a chosen share of its world by heart, fact by fact."""
