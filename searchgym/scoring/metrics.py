"""Names, labels and units of all measured and logged numbers, in one place; those of training are
read from ``METRICS.md``, the page that explains them.

Names follow TRL, verl and CleanRL, so that runs can be laid side by side in a tracker. A name that
ends in ``/*`` stands for a family.
"""

from __future__ import annotations

import re
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


def _tables(page: str) -> list[dict[str, Metric]]:
    """The tables of a Markdown page, name → metric."""
    tables: list[dict[str, Metric]] = []
    for line in page.splitlines():
        if line.startswith("|---"):
            tables.append({})
        elif line.startswith("| `"):
            name, *cells = re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            tables[-1][name.strip("`")] = Metric(*(cell.replace(r"\|", "|") for cell in cells))
    return tables


RL, SFT, CANDIDATE = _tables(PAGE.read_text(encoding="utf-8"))
"""Numbers of ``rl.jsonl`` and ``rl.minimal``, of ``sft.jsonl``, of the candidate agent's learning
curve."""
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
    "log_ratio", "groups_replayed", "em_correlation", "truncated_gain",
    "search_gain", "length_gain", "advantage",
})  # fmt: skip
"""Numbers of ``rl.jsonl`` that only trainings with a reference, a certain loss or a store log, or
only steps whose episodes differ, or are cut."""


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
