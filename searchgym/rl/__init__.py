"""Reinforcement learning of search agents.

``trainer`` and ``recipe`` train a language model by a method; ``minimal`` is GRPO in one file.
``advantages``, ``losses``, ``signals``, ``rewards``, ``rollouts``, ``data`` and ``schedules`` hold
what well-known or several methods are made of, ``critics`` value models, ``ops`` functions of
tensors, ``slots`` what passes between them. The names below are what a method's own file needs:
the method ``searchgym_agents.methods.noisy_grpo`` is an example.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
