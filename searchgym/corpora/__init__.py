"""Corpora: generated, from files, and the real sets of the catalogue."""
