"""Helpers for every package: whole files, bytes by key on disk, an event loop, limits of
clients."""
