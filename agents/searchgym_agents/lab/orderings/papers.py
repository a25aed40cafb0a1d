"""The published orderings that are measured again, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .verdicts import Arm, Comparison, Ordering, below

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
        Comparison(("igpo", "area"), ("grpo", "area"), least=0.0),
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
        Comparison(("a2tgpo", "area"), ("grpo", "area"), least=0.0),
    ),
    seeds=10,
)  # fmt: skip
SAN = Ordering(
    "san-mixed-hops", "Stratified GRPO (arXiv:2510.06214)",
    "SAN is better than GRPO where questions need different numbers of searches.",
    "Mean exact match while learning, questions of one, two and three hops, from .15.",
    {name: _learn(m, hops=[1, 2, 3]) for name, m in (("san", "stratified_grpo"), ("grpo", "grpo"))},
    (Comparison(("san", "area"), ("grpo", "area"), least=0.0),),
    seeds=10,
)  # fmt: skip
MASKED = Ordering(
    "masked-results", "Search-R1 (arXiv:2503.09516)",
    "Training on results as if the policy had written them learns worse than masking them.",
    "Exact match at the end of GRPO in the learning bench, results in the loss or not.",
    {
        "masked": _learn("grpo"),
        "unmasked": _learn(
            "grpo", changes={"rollout": {"use": "searchgym_agents.lab.orderings.training:Unmasked"}}
        ),
    },
    (Comparison(("masked", "em"), ("unmasked", "em"), least=0.0),),
    seeds=10,
)  # fmt: skip
PROCESS = Ordering(
    "process-reward", "MT-GRPO (arXiv:2505.11821)",
    "Rewards of turns beat the outcome's alone on long chains. (Jin et al., arXiv:2505.15117, "
    "find them of little use.)",
    "Mean exact match while learning, chains of three, from .09: MT-GRPO, which pays a turn that "
    "shows the answer, and GRPO, both with exact match as the outcome.",
    {m: _learn(m, hops=[3], reward=REWARDS["em"]) for m in ("mt_grpo", "grpo")},
    (Comparison(("mt_grpo", "area"), ("grpo", "area"), least=0.0),),
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
        Comparison(("f1_penalised", "em"), ("em", "em"), least=0.0),
        Comparison(("f1", "em"), ("em", "em"), most=0.0),
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
    (Comparison(("curriculum", "em"), ("constant", "em"), least=0.0),),
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
        Comparison(("phases", "middle"), ("phases", "begin"), least=0.0,
                 what="searches: after PRA - before"),
        Comparison(("phases", "searches"), ("phases", "middle"), most=0.0,
                 what="searches: after CAF - before"),
    ),
    seeds=10,
)  # fmt: skip


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
        Comparison((f"T={t}", "siblings"), (f"T={t}", "chains"), "ratio", least=1 / t, most=1.0,
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
    (Comparison(("dr_grpo", "bias"), ("grpo", "bias"), most=0.0),),
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
        Comparison((f"rloo{at}", "variance"), (f"{other}{at}", "variance"), "ratio", most=1.0,
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
    (Comparison(("san", "step_cosine"), ("grpo", "step_cosine"), least=0.0),),
    seeds=8,
)  # fmt: skip
TREE_GRPO = Ordering(
    "tree-grpo-finds", "Tree-GRPO (arXiv:2509.21240)",
    "A tree of turns yields more rollouts than chains at equal calls of tools.",
    "Episodes, and different sets of pages that a group has found, of trees of 8 leaves and of "
    "chains at equal calls of the engine; 60 groups.",
    {"tree_grpo": Arm("evidence", {"method": "tree_grpo", **TREES})},
    (
        Comparison(("tree_grpo", "leaves"), ("tree_grpo", "chains_played"), "ratio", least=1.0,
                 what="episodes: tree / chains"),
        Comparison(("tree_grpo", "tree"), ("tree_grpo", "chains"), "ratio", least=1.0,
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
    (Comparison(("arpo", "tree"), ("arpo", "chains"), "ratio", least=1.3,
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
        Comparison(("first", "em"), ("none", "em"), "ratio", most=0.5),
        Comparison(("first", "em"), ("last", "em"), "ratio", most=1.0),
    ),
    seeds=6,
)  # fmt: skip


MORE = {"things": 24, "questions": 48, "warm_steps": 320, "lr": 5e-4}
"""A larger world and a lower rate, where the model is to learn how it searches and no answers."""


def _knower(method: str, **options: Any) -> Arm:
    """A training of the knower: questions of one fact, half of whose answers it knows."""
    return Arm("boundary", {"method": method, "hops": [1], **MORE, **options})


def _halves(arm: str) -> tuple[Comparison, ...]:
    """Searches are halved where they are not needed, and there alone, at equal exact match."""
    return (
        Comparison((arm, "known"), ("grpo", "half"), most=0.0,
                 what="searches, known: less than half"),
        Comparison((arm, "unknown"), ("grpo", "most"), least=0.0,
                 what="searches, unknown: nine tenths"),
        Comparison((arm, "em"), ("grpo", "em"), least=-0.02),
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
            Comparison(("after", "turns"), ("before", "turns"), "ratio", most=0.7),
            below(("after", "turns"), ("grpo", "turns")),
            Comparison(("after", "em"), ("before", "em"), least=-0.02),
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


ORDERINGS: Mapping[str, Ordering] = {
    ordering.name: ordering
    for ordering in (
        SLATE, DR_GRPO, RLOO, SAN_GRADIENT, TREE_GRPO, ARPO, MISLED, IGPO, A2TGPO, SAN, MASKED,
        PROCESS, F1, NOISE, PHASES, SAAS, IKEA, TRACE, COSTS,
    )
}  # fmt: skip
"""Orderings by name, those that take seconds first."""
