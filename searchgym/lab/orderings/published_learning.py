"""Orderings of trainings: which method, or which reward, learns faster or better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .declared import Arm, Compared, Ordering, below

SHAPED = {"use": "curriculum"}
REWARDS: Mapping[str, Mapping[str, float]] = {
    "em": {"em": 1.0},
    "f1": {"f1": 1.0},
    # illegal actions cost: the penalties on actions
    "f1_penalised": {"f1": 1.0, "invalid": -0.2, "format": 0.2},
}


def _learn(method: str, **options: Any) -> Arm:
    """A training by a shipped recipe."""
    return Arm("learn", {"method": method, **options})


def _noise(params: Any) -> dict[str, Any]:
    """A training under noise that a curriculum sets."""
    return {"noisy": True, "changes": {"data": {**SHAPED, "curriculum": params}}}


IGPO = Ordering(
    "igpo-episodes", "IGPO (arXiv:2510.14967)",
    "Information gain as turn rewards reaches a given accuracy with fewer samples than GRPO.",
    "Episodes to an exact match of .5 in the learning bench, chains of two; 2048 where it is not "
    "reached, as a lower bound; and mean exact match while learning. The model begins at .17.",
    {m: _learn(m) for m in ("igpo", "grpo")},
    (
        below(("igpo", "episodes"), ("grpo", "episodes")),
        Compared(("igpo", "area"), ("grpo", "area"), least=0.0),
    ),
    seeds=10,
)  # fmt: skip
A2TGPO = Ordering(
    "a2tgpo-episodes", "A²TGPO (arXiv:2605.06200)",
    "Gains compared turn by turn reach a given accuracy with fewer samples than GRPO.",
    "As igpo-episodes.",
    {m: _learn(m) for m in ("a2tgpo", "grpo")},
    (
        below(("a2tgpo", "episodes"), ("grpo", "episodes")),
        Compared(("a2tgpo", "area"), ("grpo", "area"), least=0.0),
    ),
    seeds=10,
)  # fmt: skip
SAN = Ordering(
    "san-mixed-hops", "Stratified GRPO (arXiv:2510.06214)",
    "SAN is better than GRPO where questions need different numbers of searches.",
    "Mean exact match while learning, questions of one, two and three hops, from .15.",
    {name: _learn(m, hops=[1, 2, 3]) for name, m in (("san", "stratified_grpo"), ("grpo", "grpo"))},
    (Compared(("san", "area"), ("grpo", "area"), least=0.0),),
    seeds=10,
)  # fmt: skip
MASKED = Ordering(
    "masked-results", "Search-R1 (arXiv:2503.09516)",
    "Training on results as if the policy had written them learns worse than masking them.",
    "Exact match at the end of GRPO in the learning bench, results in the loss or not.",
    {
        "masked": _learn("grpo"),
        "unmasked": _learn(
            "grpo", changes={"rollout": {"use": "searchgym.lab.orderings.unmasked:Unmasked"}}
        ),
    },
    (Compared(("masked", "em"), ("unmasked", "em"), least=0.0),),
    seeds=10,
)  # fmt: skip
PROCESS = Ordering(
    "process-reward", "MT-GRPO (arXiv:2505.11821)",
    "Rewards of turns beat the outcome's alone on long chains. (Jin et al., arXiv:2505.15117, "
    "find them of little use.)",
    "Mean exact match while learning, chains of three, from .09: MT-GRPO, which pays a turn that "
    "shows the answer, and GRPO, both with exact match as the outcome.",
    {m: _learn(m, hops=[3], reward=REWARDS["em"]) for m in ("mt_grpo", "grpo")},
    (Compared(("mt_grpo", "area"), ("grpo", "area"), least=0.0),),
    seeds=10,
)  # fmt: skip
F1 = Ordering(
    "f1-and-format", "Search-R1++ (arXiv:2602.19526)",
    "F1 as reward does worse than exact match; with penalties on actions it does better.",
    "Exact match at the end of GRPO, chains of two among things of two names, of which an answer "
    "may hit one: rewards EM, F1, and F1 with .2 for the share of legal actions and less .2 for "
    "each illegal one.",
    {name: _learn("grpo", families=4, reward=reward) for name, reward in REWARDS.items()},
    (
        Compared(("f1_penalised", "em"), ("em", "em"), least=0.0),
        Compared(("f1", "em"), ("em", "em"), most=0.0),
    ),
    seeds=10,
)  # fmt: skip
NOISE = Ordering(
    "noise-curriculum", "ZeroSearch (arXiv:2505.04588)",
    "Noise that grows to one half trains better than constant noise of one half.",
    "Exact match at the end of GRPO, whose engine shows a wrong page at the rate of the noise.",
    {
        "curriculum": _learn("grpo", **_noise({"use": "zerosearch", "total": 28})),
        "constant": _learn("grpo", **_noise({"use": "scheduled", "params": {"noise": 0.5}})),
    },
    (Compared(("curriculum", "em"), ("constant", "em"), least=0.0),),
    seeds=10,
)  # fmt: skip
PHASES = Ordering(
    "pra-then-caf", "GraphRAG-R1 (arXiv:2507.23581)",
    "Paying retrievals raises their number; discounting F1 by them afterwards lowers it.",
    "Searches of GRPO at the beginning, before the switch and at the end: the reward pays "
    "retrievals (PRA) for half of the steps, and then F1 less their cost (CAF).",
    {
        "phases": _learn(
            "grpo",
            reward={"graphrag_pra": 1.0, "graphrag_caf": 1.0},
            changes={"data": {**SHAPED, "curriculum": {"use": "scheduled", "params": {
                "w_graphrag_pra": {"kind": "steps", "values": [1.0, 0.0], "at": [16]},
                "w_graphrag_caf": {"kind": "steps", "values": [0.0, 1.0], "at": [16]},
            }}}},
        )
    },
    (
        Compared(("phases", "middle"), ("phases", "begin"), least=0.0,
                 what="searches: after PRA - before"),
        Compared(("phases", "searches"), ("phases", "middle"), most=0.0,
                 what="searches: after CAF - before"),
    ),
    seeds=10,
)  # fmt: skip
