"""Reads English questions: their words, the names in them, and the kind of answer they ask for."""
