"""The laboratory: search tasks so small that the true gradient is known, and methods held to it.

``tree`` enumerates every trajectory of a few questions, ``policy`` is a softmax over them, and
``measure`` compares what a recipe's own objects make of sampled groups with the exact gradient of
the expected return. ``learn`` trains a small language model by each method in a world of the same
kind. ``searchgym lab`` prints both.
"""
