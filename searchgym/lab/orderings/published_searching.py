"""Orderings of how a model searches after a training: where it need not, and in fewer turns."""

from __future__ import annotations

from typing import Any

from .declared import Arm, Compared, Ordering, below

MORE = {"things": 24, "questions": 48, "warm_steps": 320, "lr": 5e-4}
"""A larger world and a lower rate, where the model is to learn how it searches and no answers."""


def _knower(method: str, **options: Any) -> Arm:
    """A training of the knower: questions of one fact, half of whose answers it knows."""
    return Arm("boundary", {"method": method, "hops": [1], **MORE, **options})


def _halves(arm: str) -> tuple[Compared, ...]:
    """Searches are halved where they are not needed, and there alone, at equal exact match."""
    return (
        Compared((arm, "known"), ("grpo", "half"), most=0.0,
                 what="searches, known: less than half"),
        Compared((arm, "unknown"), ("grpo", "most"), least=0.0,
                 what="searches, unknown: nine tenths"),
        Compared((arm, "em"), ("grpo", "em"), least=-0.02),
    )  # fmt: skip


SAAS = Ordering(
    "saas-searches", "SAAS (arXiv:2605.29796)",
    "Fewer searches on questions that the model can answer by itself, at equal accuracy, and as "
    "many on the others.",
    "Searches of a knower after SAAS and after GRPO with exact match as reward, on the questions "
    "whose answers it knew before and on the others. Held to half of GRPO's on the former, nine "
    "tenths on the latter, and an exact match no more than .02 lower (ours).",
    {m: _knower(m) for m in ("saas", "grpo")}, _halves("saas"), seeds=10,
)  # fmt: skip
IKEA = Ordering(
    "ikea-searches", "IKEA (arXiv:2505.07596)",
    "A reward that knows the model's boundary halves searches on known questions.",
    "As saas-searches, by GRPO with IKEA's reward and with exact match.",
    {"ikea": _knower("grpo", reward={"ikea": 1.0}), "grpo": _knower("grpo")}, _halves("ikea"),
    seeds=10,
)  # fmt: skip


def _pairs(method: str | None, **options: Any) -> Arm:
    """A training of a model that asks for two facts in too many turns."""
    return Arm("turns", {"method": method, **MORE, **options})


def _shorter(name: str, source: str, claim: str, how: str, arm: Arm) -> Ordering:
    """A reward cuts the turns that search by three tenths, and below GRPO's, at equal exact
    match."""
    return Ordering(
        name, source, claim,
        "Searching turns on questions for two facts, of a model that asks for both at once or one "
        f"by one, and again for what it knows: {how}. Held to seven tenths of the turns before the "
        "training, fewer than GRPO leaves with exact match as reward, and an exact match no more "
        "than .02 below the one before (ours).",
        {"after": arm, "before": _pairs(None), "grpo": _pairs("grpo")},
        (
            Compared(("after", "turns"), ("before", "turns"), "ratio", most=0.7),
            below(("after", "turns"), ("grpo", "turns")),
            Compared(("after", "em"), ("before", "em"), least=-0.02),
        ),
        seeds=10,
    )  # fmt: skip


TRACE = _shorter(
    "trace-turns", "HyperEyes (arXiv:2605.07177)",
    "A bonus for needing no more turns and queries than the best so far makes searching shorter "
    "and wide, at no loss of accuracy.",
    "the recipe hypereyes", _pairs("hypereyes"),
)  # fmt: skip
COSTS = _shorter(
    "hc-grpo-turns", "ESearch-R1 (arXiv:2512.18571)",
    "Costs by kind of action in the reward make episodes cheaper at equal success.",
    "GRPO with exact match less the reward costs",
    _pairs("grpo", reward={"em": 1.0, "costs": 1.0}),
)  # fmt: skip
