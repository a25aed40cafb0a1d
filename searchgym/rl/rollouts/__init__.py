"""Rollout strategies: ways to play a task's group."""
