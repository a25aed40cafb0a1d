"""Measures what share of a question set a corpus can answer, and what prevents the rest."""
