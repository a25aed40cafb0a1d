"""Knowledge graphs, generated or imported, and what is computed on them."""

PREFIX = "kg:"
"""How a name of a corpus begins that is a knowledge graph's: ``corpus="kg:triples.tsv"``."""
