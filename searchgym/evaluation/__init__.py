"""Evaluation: every question once, intervals, comparisons, records that can be resumed."""
