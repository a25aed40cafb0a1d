"""The old place of ``losses.ppo``; goes when its last importer has moved."""

from __future__ import annotations

from .losses.ppo import ppo_loss as policy_loss

__all__ = ["policy_loss"]
