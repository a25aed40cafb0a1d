"""Candidate actions of a state and their numeric features, for agents without language models."""
