"""Names, labels and units of all measured and logged numbers, in one place.

``METRICS.md`` is written from the tables of training.
Names follow TRL, verl and CleanRL, so that runs can be laid side by side in a tracker. A name that
ends in ``/*`` stands for a family. Write the page anew by ``python -m searchgym.scoring.metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "rl" / "METRICS.md"


class Metric(NamedTuple):
    """One logged number."""

    label: str
    """Name in tables and figures."""
    formula: str
    unit: str
    healthy: str
    """The range in which nothing needs to be done."""
    remedy: str
    """Remedy for a value outside of it."""


_COUNT = "none: depends on the recipe"

EVALUATION: Mapping[str, Metric] = {
    name: Metric(label, formula, unit, better, "–")
    for name, label, unit, better, formula in (
        ("em", "EM", "share", "higher", "the normalised answer equals an accepted one"),
        ("f1", "F1", "share", "higher", "token F1, best over accepted answers"),
        ("cover_em", "cover-EM", "share", "higher", "an accepted answer stands in the answer"),
        ("evidence_recall", "evidence recall", "share", "higher", "gold passages that were shown"),
        ("evidence_precision", "evidence precision", "share", "higher", "shown ones that are gold"),
        ("evidence_mrr", "evidence MRR", "share", "higher", "1 / place of the first gold passage"),
        ("evidence_ndcg", "evidence nDCG", "share", "higher", "nDCG in the order of showing"),
        ("searches", "searches", "searches", "lower", "queries run and calls of other tools"),
        ("turns", "turns", "turns", "lower", "turns of the episode"),
        ("invalid", "invalid", "turns", "lower", "turns that were no legal action"),
        ("invalid_rate", "share of invalid turns", "share", "lower", "invalid / turns"),
        ("truncated", "share of truncated episodes", "share", "lower", "ended by a budget"),
        ("accesses", "accesses", "pages", "lower", "pages opened"),
        ("tokens_in", "tokens in", "tokens", "lower", "tokens read, over all turns"),
        ("tokens_out", "tokens out", "tokens", "lower", "tokens written"),
        ("cost", "cost", "$", "lower", "charged by the agent's model and the engine"),
        ("judge", "judge", "share", "higher", "answers that a judge model holds right"),
        ("reward", "reward", "reward", "higher", "return of the episode"),
        ("overflowed", "overflowed", "turns", "lower", "turns without room in the context"),
        ("length_cut", "length cut", "turns", "lower", "turns ended by `max_tokens`"),
        ("set_f1", "set F1", "share", "higher", "F1 over the parts of an answer"),
    )
}
"""Measures of an evaluated question (``evaluation.metrics.Row``); ``healthy`` says what is better.
A reward's own parts come in addition."""
MAIN = ("em", "f1", "evidence_recall", "searches")
"""Measures that stand for a result, in the order of all tables."""

RL: Mapping[str, Metric] = {
    "step": Metric("step", "number of the step, from 0", "steps", "–", "–"),
    "reward": Metric(
        "reward", "mean over episodes of the reward after all transforms of the recipe", "reward",
        "rises over tens of steps",
        "flat from the start: see `frac_reward_zero_std`; rises without `em`: the reward is hacked",
    ),
    "return": Metric(
        "return (environment's reward)", "mean over episodes of the environment's rewards, summed",
        "reward", "rises with `reward`", "falls while `reward` rises: transforms outweigh the task",
    ),
    "rewards/*": Metric(
        "reward part", "mean over episodes of one part of the environment's reward, summed over "
        "turns, unweighted", "reward", "parts that are meant to rise do",
        "only a shaping part rises: lower its weight",
    ),
    "em": Metric(
        "exact match", "mean over episodes of exact match with an accepted answer", "share",
        "rises", "0 throughout: easier tasks, a warm start, or `f1` as the reward",
    ),
    "f1": Metric(
        "F1", "mean over episodes of token F1, best over accepted answers", "share",
        "at least `em`", "as `em`",
    ),
    "searches": Metric(
        "searches per episode", "mean over episodes of queries run and calls of other tools",
        "searches",
        "not near 0 where tasks need searching",
        "falls to 0 (warning `no_search`): tasks are answerable from memory, or searching costs "
        "too much",
    ),
    "turns": Metric("turns per episode", "mean over episodes of turns", "turns", _COUNT,
                    "at the budget: raise `max_turns`, or reward shorter episodes"),
    "completion_length": Metric(
        "tokens per episode", "mean over episodes of sampled tokens, all turns together", "tokens",
        "steady", "grows threefold (warning `length_blow_up`): penalise length, average by tokens",
    ),
    "invalid": Metric(
        "share of invalid turns", "turns that are no legal action / turns", "share", "below 0.1",
        "high: lower the temperature, warm start, or another dialect",
    ),
    "truncated": Metric(
        "share of truncated episodes", "episodes ended by a budget / episodes", "share",
        "below 0.2",
        "high: raise `max_turns`, `max_tokens` or the episode's budgets",
    ),
    "overflowed": Metric(
        "share of overflowed turns", "turns whose prompt left no room in the model's context / "
        "turns", "share", "0",
        "above 0: such turns are empty and count as invalid. Lower `k`, `snippet_chars`, "
        "`max_turns` or `max_tokens`, or take a model with a longer context",
    ),
    "length_cut": Metric(
        "share of turns cut by length", "turns ended by `max_tokens` instead of by the model or a "
        "stop string / turns (TRL: clipped_ratio)", "share", "below 0.05",
        "high: raise `sampling.max_tokens`, or penalise length",
    ),
    "episodes": Metric("episodes", "episodes played, baselines left out", "episodes", "–", "–"),
    "infra_errors": Metric(
        "episodes lost to infrastructure", "episodes that a failing engine or tool ended; they are "
        "not trained on", "episodes", "0", "above 0: look at the engine's server",
    ),
    "entropy": Metric(
        "entropy, nats per token", "minus the mean log-probability of sampled tokens: an unbiased "
        "estimate of the policy's entropy", "nats/token", "above a twentieth of its first value",
        "near 0 (warning `entropy_collapse`): lower `lr`, add loss `entropy`, raise `clip_high`",
    ),
    "kl": Metric(
        "KL to the reference, nats per token", "mean over trained tokens of the k3 estimate of "
        "KL(policy ‖ reference)", "nats/token", "below about 1",
        "grows fast: raise the weight of the loss `kl`, or lower `lr`",
    ),
    "roles/*": Metric(
        "episodes of other roles", "`roles/NAME/episodes`, mean `reward` and `completion_length` "
        "of the episodes in which the policy played another role; `infra_errors`, those that "
        "failed, a frozen role's among them", "as their names",
        "`reward` rises",
        "flat: the role's rewards are equal within groups, or its texts are malformed",
    ),
    "groups": Metric("groups", "groups played", "groups", "–", "–"),
    "groups_kept": Metric(
        "groups trained on", "groups that the data policy admitted", "groups", "the configured "
        "`tasks`", "fewer: the data policy filters too much, see `frac_reward_zero_std`",
    ),
    "groups_replayed": Metric("groups trained on again", "groups of earlier steps in this batch",
                              "groups", _COUNT, "–"),
    "trajectories": Metric("trajectories", "episodes trained on", "episodes", "–", "–"),
    "frac_reward_zero_std": Metric(
        "share of groups without signal", "groups whose rewards are all equal / groups", "share",
        "below 0.7",
        "1 throughout (warning `no_signal`): nothing is learnt. Easier tasks, a warm start, a "
        "graded reward (`f1`), larger groups, a higher temperature",
    ),
    "difficulty/*": Metric("difficulty", "mean over played groups of one axis of difficulty",
                           "as the axis", "as the curriculum sets it", "–"),
    "lr": Metric("learning rate", "AdamW's learning rate times `coef/lr`", "–",
                 "as configured", "–"),
    "coef/*": Metric("coefficient", "value of a scheduled coefficient", "–", "as scheduled", "–"),
    "loss": Metric(
        "loss", "weighted sum of the recipe's losses, mean over the step's updates", "–",
        "near 0 on policy; its course says little", "not finite: the run stops with an error",
    ),
    "grad_norm": Metric(
        "gradient norm", "L2 norm of the gradient before clipping, mean over updates", "–",
        "steady, mostly below `max_norm`", "spikes or grows: lower `lr`; 0: nothing is learnt",
    ),
    "ratio": Metric("probability ratio", "mean over trained tokens of π/π_old", "–", "0.9 to 1.1",
                    "drifts: fewer updates per step, or a lower `lr`"),
    "clip_frac": Metric(
        "clip fraction", "trained tokens whose ratio is clipped / trained tokens", "share",
        "0 with one update per step; below 0.2 with several",
        "high: fewer `epochs` or `minibatches`, or a lower `lr`",
    ),
    "approx_kl": Metric(
        "KL to the old policy, nats per token", "mean over trained tokens of the k3 estimate of "
        "KL(π_old ‖ π)", "nats/token", "below 0.02", "high: as `clip_frac`",
    ),
    "behaviour_weight": Metric(
        "importance weight of stale tokens", "mean over trained tokens of the weight "
        "π_old/π_sampled that the loss `decoupled` applies", "–", "0.9 to 1.1",
        "far from 1: a smaller `eta`",
    ),
    "capped_frac": Metric(
        "capped fraction", "trained tokens whose weight is above the cap / trained tokens", "share",
        "below 0.05", "high: a smaller `eta`, or fewer `minibatches`",
    ),
    "squared": Metric("squared error (kimi)", "mean over trajectories of the loss's squared error",
                      "–", "falls", "–"),
    "log_ratio": Metric("log ratio (kimi)", "mean over trajectories of log π/π_old", "nats",
                        "near 0", "drifts: a lower `lr`"),
    "kl/*": Metric("KL loss", "statistics of the loss `kl`: `kl/kl` is its mean k3 per token",
                   "nats/token", "below about 1", "as `kl`"),
    "kl_cov/*": Metric("KL-Cov loss", "statistics of the loss `kl_cov`", "nats/token",
                       "below about 1", "as `kl`"),
    "entropy/*": Metric("entropy loss", "statistics of the loss `entropy`: `entropy/entropy` is "
                        "the exact entropy per trained token", "nats/token", "as `entropy`",
                        "as `entropy`"),
    "sft/*": Metric("SFT loss", "`sft/kept`: share of trajectories that are imitated; "
                    "`sft/entropy`: mean exact entropy at an expert's tokens", "share; nats/token",
                    "above 0", "`kept` 0: no trajectory reaches the threshold"),
    "replay/*": Metric("loss on replayed members", "as the statistics of the same name, over "
                       "members of earlier steps", "–", "`replay/clip_frac` below 0.5",
                       "high: keep them for fewer steps"),
    "dpo/*": Metric("DPO loss", "`dpo/accuracy`: share of pairs whose better member has the higher "
                    "implicit reward; `dpo/margin`: mean difference of implicit rewards", "share; "
                    "nats", "accuracy above 0.5", "below: a lower `lr`"),
    "step_apo/*": Metric("Step-APO loss", "`step_apo/accuracy`: share of pairs of turns whose "
                         "better one has the higher implicit reward; `step_apo/margin`: mean "
                         "difference of implicit rewards", "share; nats", "accuracy above 0.5",
                         "below: a lower `lr`"),
    "critic/*": Metric(
        "critic", "`loss`, `grad_norm`, mean `value` and `clip_frac` of the value model's updates; "
        "of `hl_gauss` `outside`: share of returns beyond its histogram",
        "–", "loss falls", "loss grows: a lower `critic.lr`",
    ),
    "implicit_reward/*": Metric(
        "implicit rewards (istar)", "of the model that learns from pairs of a success and a "
        "failure: `loss`, `accuracy` (share of pairs in the right order), `grad_norm`, number of "
        "`pairs`",
        "nats; share; –; pairs", "loss falls from ln 2", "no pairs: all succeed or all fail",
    ),
    "progress/*": Metric(
        "progress head (spa_rl)", "`loss`: mean squared error of episodes' summed contributions, "
        "at the end of the head's fit",
        "reward²", "falls", "grows: a lower `lr` of the signal",
    ),
    "critic_chosen/*": Metric(
        "critic of turns (cr_planner)", "`loss`: mean −log σ of the difference between the "
        "critic's values of better and worse siblings, at the end of its fit",
        "nats", "falls from ln 2", "stays: siblings' hidden states do not tell them apart",
    ),
    "value_guided/*": Metric(
        "value head (vstar)", "`loss`: mean squared error of the rollout's value head to its TD(0) "
        "targets, at the end of its fit",
        "reward²", "falls", "grows: a lower `lr` of the rollout",
    ),
    "valued_mcts/*": Metric(
        "value head (rest_mcts)", "`loss`: mean squared error of the rollout's value head to the "
        "qualities of turns, at the end of its fit",
        "quality²", "falls", "grows: a lower `lr` of the rollout",
    ),
    "sampling_logp_difference/*": Metric(
        "trainer and rollout engine disagree by", "mean and max over tokens of |log π_trainer − "
        "log π_rollout| at equal weights", "nats", "1e-4 in float32, below 0.5 in half precision",
        "larger: the run stops with an error",
    ),
    "staleness/*": Metric(
        "staleness", "`staleness/n`: share of trained tokens drawn n updates ago; `mean`, `max`",
        "updates", "at most `eta`", "–",
    ),
    "importance_sampling_ratio/*": Metric(
        "importance ratio of stale tokens", "over trained tokens, of w = π_old/π_sampled: `mean`, "
        "`max`, `ess` (effective sample size (Σw)²/(NΣw²)), `kl` (k3)", "–", "`ess` above 0.5",
        "low: a smaller `eta`, or loss `decoupled`",
    ),
    "rollouts/*": Metric(
        "rollout workers", "`dropped` groups since the last update, `workers_lost` in all, "
        "`trainer_idle` and `workers_idle`: shares of the time spent waiting", "groups; workers; "
        "share", "idle shares below 0.3",
        "trainer idle: more workers; workers idle: a larger `eta`",
    ),
    "rollout_s": Metric("playing, seconds", "wall clock of rollouts and rewards", "s", "–",
                        "most of a step: larger batches, `reuse_tokens`, vLLM"),
    "update_s": Metric("updating, seconds", "wall clock of everything after the rollouts", "s", "–",
                       "most of a step: larger `tokens`, `autocast`"),
}  # fmt: skip
"""Numbers of ``rl.jsonl``, and of ``rl.minimal``."""

SFT: Mapping[str, Metric] = {
    "step": Metric("step", "number of the last step of the row, from 1", "steps", "–", "–"),
    "loss": Metric("loss, nats per token", "mean cross-entropy of completion tokens since the last "
                   "row", "nats/token", "falls", "grows: lower the learning rates"),
    "mean_token_accuracy": Metric("accuracy of the next token", "completion tokens that were the "
                                  "likeliest / completion tokens", "share", "rises", "as `loss`"),
    "grad_norm": Metric("gradient norm", "L2 norm of AdamW's gradients before clipping, mean since "
                        "the last row", "–", "steady", "spikes: lower the learning rates"),
    "tokens_per_s": Metric("tokens per second", "tokens without padding / `update_s`", "tokens/s",
                           "–", "–"),
    "update_s": Metric("updating, seconds", "wall clock of the steps since the last row", "s", "–",
                       "–"),
}  # fmt: skip
"""Numbers of ``sft.jsonl``: supervised training and warm starts."""

CANDIDATE: Mapping[str, Metric] = {
    "episodes": Metric("episodes", "training episodes so far", "episodes", "–", "–"),
    "train_s": Metric("training, seconds", "wall clock since training began, preparation left out",
                      "s", "–", "–"),
    "em": Metric("exact match", "mean over the development world's questions, played greedily",
                 "share", "rises", "flat: more episodes or worlds"),
    "f1": Metric("F1", "token F1 of the same", "share", "rises", "as `em`"),
    "searches": Metric("searches per episode", "mean over the same", "searches", _COUNT,
                       "0: raise the evidence shaping"),
    "evidence_recall": Metric("evidence recall", "gold passages shown / gold passages, mean over "
                              "the same", "share", "rises first", "flat: as `searches`"),
}  # fmt: skip
"""Numbers of the candidate agent's learning curve."""
PLAY = ("reward", "em", "f1", "searches", "turns", "completion_length")
HEALTH = ("entropy", "frac_reward_zero_std", "invalid", "truncated", "grad_norm", "clip_frac",
          "approx_kl", "kl")  # fmt: skip
"""Numbers of ``rl.jsonl`` that every view of a training shows: what is played, and where a collapse
shows first."""
RARE = ("overflowed", "length_cut", "infra_errors")
"""Counts of what should not happen, shown where it did."""
EXAMPLES = ("loss", "mean_token_accuracy", "tokens_per_s")
CURVE = ("f1", "em", "evidence_recall", "searches")
"""The same of supervised training, and of the candidate agent."""


SOMETIMES = frozenset({
    "kl", "ratio", "clip_frac", "approx_kl", "behaviour_weight", "capped_frac", "squared",
    "log_ratio", "groups_replayed",
})  # fmt: skip
"""Numbers of ``rl.jsonl`` that only trainings with a reference, a certain loss or a store log."""


def family(name: str) -> str:
    """The entry of a table that a logged name belongs to: itself, or its first part and ``/*``."""
    head, slash, _ = name.partition("/")
    return f"{head}/*" if slash else name


def label(name: str, table: Mapping[str, Metric] = EVALUATION) -> str:
    """Name of a number in tables and figures; its last part where it is one of a family."""
    if name in table:
        return table[name].label
    return name.rpartition("/")[2].replace("_", " ")


def is_rate(name: str) -> bool:
    """Return whether a logged number lies in [0, 1], as do the axes that it is drawn on; a part of
    the reward does that has the name of an answer's score."""
    if name in ("rewards/em", "rewards/f1", "rewards/cover_em"):
        return True
    tables = (RL, SFT, CANDIDATE)
    return any(name in table and table[name].unit == "share" for table in tables)


def page() -> str:
    """The text of ``METRICS.md``."""
    parts = [
        "# Logged metrics\n",
        "Written from `searchgym/scoring/metrics.py` by `python -m searchgym.scoring.metrics`; "
        "do not edit.\n",
        "Names ending in `_s` are clock times; all other numbers repeat exactly with the same seed "
        "and number of threads.\n",
    ]
    for title, table in (
        ("Reinforcement learning (`rl.jsonl`)", RL),
        ("Supervised training and warm start (`sft.jsonl`)", SFT),
        ("Candidate agent (learning curve)", CANDIDATE),
    ):
        parts += [
            f"## {title}\n",
            "| name | meaning | unit | healthy | otherwise |\n|---|---|---|---|---|",
            *(
                f"| `{name}` | {m.formula} | {m.unit} | {m.healthy} | {m.remedy} |"
                for name, m in table.items()
            ),
            "",
        ]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
