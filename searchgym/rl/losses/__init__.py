"""Losses: classes that say what each token costs (``WeightedLoss.by_token``), and their sums.

Log-probabilities, masks and old log-probabilities are (B, T); advantages (B,) or (B, T). Each loss
is one number (``ops.tokens``); the statistics are plain numbers for the logs. ``aggregate`` says
what the sum is divided by, its default is the method's own. Losses add up with coefficients:
policy + β · KL - and so on.

A class with a line ``registered = "name"`` is what a recipe calls by that name.
"""
