"""How answers and retrieval are measured; see the module names."""

SCORING_VERSION = 2
"""Raised whenever a measure of an answer changes its value; results of two versions are not
compared. 1: cover-EM found the answer anywhere, inside of words, too. 2: as whole words."""
