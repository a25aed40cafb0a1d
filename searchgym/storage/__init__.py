"""Persistence: whole files, JSON records, checkpoints, bytes by key, the user's cache."""
