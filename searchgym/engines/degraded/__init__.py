"""Wrapper that makes any engine worse at adjustable rates: noise, failures and outdated pages."""

from .engine import DegradedEngine, make

__all__ = ["DegradedEngine", "make"]
