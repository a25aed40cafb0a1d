"""Measures of answers (EM, F1, cover-EM) and of retrieval (nDCG, MRR, precision)."""

SCORING_VERSION = 2
"""Raised whenever a measure of an answer changes its value; results of two versions are not
compared. 1: cover-EM found the answer anywhere, inside of words, too. 2: as whole words."""
