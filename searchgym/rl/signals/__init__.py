"""Signals: measurements of played groups."""
