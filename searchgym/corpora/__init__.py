"""Passages and questions: rendered from worlds, read from files, and real sets."""
