"""Reward transforms: from signals to rewards."""
