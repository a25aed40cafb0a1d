"""Orderings of gradients and of what is found: no model is trained."""

from __future__ import annotations

from typing import Any

from .declared import Arm, Compared, Ordering

TREES = {"size": 8, "groups": 60}


def _gradient(method: str, **options: Any) -> Arm:
    """A method's gradient in groups of 8."""
    return Arm("gradient", {"method": method, "size": 8, "steps": 400, **options})


SLATE = Ordering(
    "slate-variance", "SLATE (arXiv:2602.23440)",
    "Candidates of a single turn from one prefix have advantages of up to T times less variance "
    "than full chains of T turns, under the same scores of turns: a share of at least 1 / T.",
    "Exact variances over all trajectories of T turns, T = 2, 3, 4, of policies right in 40 % of "
    "their episodes; scores by the world, where the paper asks a judge. Another quantity than the "
    "theorem's, whose scores do not depend on each other: here a chain's scores do, so that their "
    "sum varies 1.5 times as much as they do apart, and a turn's score varies less from one "
    "prefix than over all. The variance falls by more than T.",
    {f"T={t}": Arm("step_variance", {"turns": t}) for t in (2, 3, 4)},
    tuple(
        Compared((f"T={t}", "siblings"), (f"T={t}", "chains"), "ratio", least=1 / t, most=1.0,
                 what=f"T={t}: siblings / chains")
        for t in (2, 3, 4)
    ),
    seeds=8,
)  # fmt: skip
DR_GRPO = Ordering(
    "dr-grpo-bias", "Dr. GRPO (arXiv:2503.20783)",
    "Dividing by the group's standard deviation and by lengths biases GRPO's gradient; without "
    "them it has no bias.",
    "Part of the expected gradient across the true one, in lengths of the part along it: groups of "
    "8, 400 steps, policies right in 40 % of their episodes.",
    {m: _gradient(m) for m in ("dr_grpo", "grpo")},
    (Compared(("dr_grpo", "bias"), ("grpo", "bias"), most=0.0),),
    seeds=8,
)  # fmt: skip
RLOO = Ordering(
    "rloo-variance", "Ahmadian et al., RLOO (arXiv:2402.14740)",
    "The mean of the group's other members as baseline lowers REINFORCE's variance.",
    "Trace of the covariance of one step's gradient, by the squared length along the true one, as "
    "in dr-grpo-bias, at success rates of 40 and 80 %. Held to REINFORCE without a baseline, and "
    "to the recipe reinforce, whose baseline is the mean of 100 earlier steps and so almost exact: "
    "to that one RLOO's variance is G / (G - 1) = 1.14 by algebra, G = 8, where all questions are "
    "equally hard.",
    {f"{name}{at}": _gradient(method, **options, **more)
     for name, method, options in (
         ("rloo", "rloo", {}), ("reinforce", "reinforce", {}),
         ("none", "reinforce", {"changes": {"advantage": {"use": "reinforce", "baseline": 0.0}}}))
     for at, more in (("", {}), (" 80%", {"success": 0.8}))},
    tuple(
        Compared((f"rloo{at}", "variance"), (f"{other}{at}", "variance"), "ratio", most=1.0,
                 what=f"{told}rloo / {words}")
        for other, words in (("none", "no baseline"), ("reinforce", "running mean"))
        for at, told in (("", ""), (" 80%", "at 80 %: "))
    ),
    seeds=8,
)  # fmt: skip
SAN_GRADIENT = Ordering(
    "san-gradient", "Stratified GRPO (arXiv:2510.06214)",
    "Comparing trajectories of equally many searches gives a better signal than comparing them "
    "all.",
    "Mean cosine of one step's gradient with the true one on questions of one and two hops, as in "
    "dr-grpo-bias.",
    {name: _gradient(m)
     for name, m in (("san", "stratified_grpo"), ("grpo", "grpo"))},
    (Compared(("san", "step_cosine"), ("grpo", "step_cosine"), least=0.0),),
    seeds=8,
)  # fmt: skip
TREE_GRPO = Ordering(
    "tree-grpo-finds", "Tree-GRPO (arXiv:2509.21240)",
    "A tree of turns yields more rollouts than chains at equal calls of tools.",
    "Episodes, and different sets of pages that a group has found, of trees of 8 leaves and of "
    "chains at equal calls of the engine; 60 groups.",
    {"tree_grpo": Arm("evidence", {"method": "tree_grpo", **TREES})},
    (
        Compared(("tree_grpo", "leaves"), ("tree_grpo", "chains_played"), "ratio", least=1.0,
                 what="episodes: tree / chains"),
        Compared(("tree_grpo", "tree"), ("tree_grpo", "chains"), "ratio", least=1.0,
                 what="sets of pages: tree / chains"),
    ),
    seeds=5,
)  # fmt: skip
ARPO = Ordering(
    "arpo-finds", "ARPO (arXiv:2507.19849)",
    "Branching where a tool's results leave the policy unsure explores more at equal calls: half "
    "of the calls suffice.",
    "As tree-grpo-finds, with groups of 16; held to 1.3 times the sets of pages (ours).",
    {"arpo": Arm("evidence", {"method": "arpo", "size": 16, "groups": 30})},
    (Compared(("arpo", "tree"), ("arpo", "chains"), "ratio", least=1.3,
              what="sets of pages: tree / chains"),),
    seeds=5,
)  # fmt: skip
MISLED = Ordering(
    "misleading-page", "The Synthetic Web (arXiv:2603.00801)",
    "One misleading page at the first rank makes accuracy collapse.",
    "Exact match of best-sentence, which reads all results and doubts none, in MisinformationQA's "
    "setting: a wrong page about the best hit first, last of four, or nowhere. A collapse loses "
    "more than half (ours).",
    {name: Arm("misled", {"agent": "best_sentence", "rank": rank})
     for name, rank in (("first", 1), ("last", 4), ("none", 0))},
    (
        Compared(("first", "em"), ("none", "em"), "ratio", most=0.5),
        Compared(("first", "em"), ("last", "em"), "ratio", most=1.0),
    ),
    seeds=6,
)  # fmt: skip
