"""The laboratory: training methods in tasks so small that the true gradient is known.

``tree`` enumerates every trajectory of a few questions, ``policy`` is a softmax over them, and
``quality`` compares the gradient that a recipe's own objects make of sampled groups with the exact
gradient of the expected return. ``learning`` trains a small language model by each method in a
world of the same kind, and ``orderings`` measures again what papers say of two methods.
``searchgym lab`` prints all of it.
"""
