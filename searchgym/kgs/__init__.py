"""Knowledge graphs, generated or imported, and what is computed on them; see the module names."""

PREFIX = "kg:"
"""Prefix of a corpus name that means a knowledge graph: ``corpus="kg:triples.tsv"``."""
