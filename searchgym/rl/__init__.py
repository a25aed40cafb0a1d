"""Reinforcement learning of search agents.

``trainer`` and ``recipe`` train a language model by a method; ``minimal`` is GRPO in one file.
``advantages``, ``losses``, ``signals``, ``rewards``, ``rollouts``, ``data`` and ``schedules`` hold
what well-known or several methods are made of, ``critics`` value models, ``ops`` functions of
tensors, ``slots`` what passes between them. The names below are what a method's own file needs:
the method ``searchgym_agents.methods.noisy_grpo`` is an example. ``candidate`` trains the agent
that chooses among candidate actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "advantages.among": ("Among",),
    "advantages.base": ("Coef", "DrawingOver", "Over", "Relative"),
    "advantages.grpo": ("grpo_advantages",),
    "advantages.rloo": ("rloo_advantages",),
    "data.uniform": ("UniformTasks",),
    "losses.base": ("ON_POLICY", "WeightedLoss", "check_positive"),
    "losses.dpo": ("outcome_pairs",),
    "losses.kl": ("kl_loss",),
    "losses.reinforce": ("reinforce_loss",),
    "rollouts.branching": ("Branching", "GrowingBranch", "SecondTries", "TurnTree", "returns"),
    "rollouts.chains": ("Chains", "played", "start"),
    "rollouts.demonstrations": ("Demonstrations",),
    "rollouts.hints": ("Source", "WithHints", "checked_source", "hint_of"),
    "rollouts.mcts": ("Mcts", "SearchNode", "backed_up"),
    "signals.gold": ("GoldLogp",),
    "signals.outcome": ("part", "total"),
    "signals.turns": ("Anchor", "in_columns"),
    "slots.batch": ("Batch", "Estimate", "Mean", "Output", "Totals"),
    "slots.protocols": ("Reduction", "Result", "Slot"),
    "slots.records": (
        "Floats", "Group", "POLICY", "Played", "Rewards", "Scored", "Signals", "TaskPlan",
        "Workers", "wider",
    ),
    "slots.registry": ("make",),
}  # fmt: skip
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .advantages.among import Among as Among
    from .advantages.base import Coef as Coef
    from .advantages.base import DrawingOver as DrawingOver
    from .advantages.base import Over as Over
    from .advantages.base import Relative as Relative
    from .advantages.grpo import grpo_advantages as grpo_advantages
    from .advantages.rloo import rloo_advantages as rloo_advantages
    from .data.uniform import UniformTasks as UniformTasks
    from .losses.base import ON_POLICY as ON_POLICY
    from .losses.base import WeightedLoss as WeightedLoss
    from .losses.base import check_positive as check_positive
    from .losses.dpo import outcome_pairs as outcome_pairs
    from .losses.kl import kl_loss as kl_loss
    from .losses.reinforce import reinforce_loss as reinforce_loss
    from .rollouts.branching import Branching as Branching
    from .rollouts.branching import GrowingBranch as GrowingBranch
    from .rollouts.branching import SecondTries as SecondTries
    from .rollouts.branching import TurnTree as TurnTree
    from .rollouts.branching import returns as returns
    from .rollouts.chains import Chains as Chains
    from .rollouts.chains import played as played
    from .rollouts.chains import start as start
    from .rollouts.demonstrations import Demonstrations as Demonstrations
    from .rollouts.hints import Source as Source
    from .rollouts.hints import WithHints as WithHints
    from .rollouts.hints import checked_source as checked_source
    from .rollouts.hints import hint_of as hint_of
    from .rollouts.mcts import Mcts as Mcts
    from .rollouts.mcts import SearchNode as SearchNode
    from .rollouts.mcts import backed_up as backed_up
    from .signals.gold import GoldLogp as GoldLogp
    from .signals.outcome import part as part
    from .signals.outcome import total as total
    from .signals.turns import Anchor as Anchor
    from .signals.turns import in_columns as in_columns
    from .slots.batch import Batch as Batch
    from .slots.batch import Estimate as Estimate
    from .slots.batch import Mean as Mean
    from .slots.batch import Output as Output
    from .slots.batch import Totals as Totals
    from .slots.protocols import Reduction as Reduction
    from .slots.protocols import Result as Result
    from .slots.protocols import Slot as Slot
    from .slots.records import POLICY as POLICY
    from .slots.records import Floats as Floats
    from .slots.records import Group as Group
    from .slots.records import Played as Played
    from .slots.records import Rewards as Rewards
    from .slots.records import Scored as Scored
    from .slots.records import Signals as Signals
    from .slots.records import TaskPlan as TaskPlan
    from .slots.records import Workers as Workers
    from .slots.records import wider as wider
    from .slots.registry import make as make

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
