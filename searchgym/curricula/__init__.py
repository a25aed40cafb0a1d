"""Curricula: the choice of the next tasks and the difficulty while an agent learns.

A curriculum drives the *environment*, so every trainer can have one: it says where on each axis of
difficulty (:data:`AXES`) the next episode is, and which task it plays. It acts at each episode's
start, also inside vector environments, where autoreset passes no options. Give an environment one
by ``gym.make(…, curriculum=…)`` or around it (``sg.CurriculumWrapper``), our
trainers by a recipe's ``data = {use = "curriculum", curriculum = …}``. It is written as a name, a
table ``{"use": name, …}``, an import path, or an object (:func:`make_curriculum`):

    {"use": "zerosearch", "end": 0.5, "total": 200}
    {"use": "staged", "max_hops": [1, 2, 4], "threshold": 0.7, "max_episodes": 5000}
    {"use": "scheduled", "params": {"top_k": {"kind": "linear", "start": 10, "end": 3,
     "total": 100}}, "tasks": {"use": "pool"}}

Axes are driven by ``scheduled`` (linear, exponential, in steps), ``zerosearch``, ``scaling_inter``,
``after_success``, ``staged``, ``band``, ``bandit`` and, by what the task is, ``per_task``; tasks
are chosen by ``uniform``, ``staged``, ``masksearch``, ``self_paced``, ``success_band`` and
``pool``. Those of the first kind take one of the second as ``tasks``, but for ``staged``, which
does both.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
