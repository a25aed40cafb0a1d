"""MT-GRPO: GRPO of the outcome, and of what the searches found for the turns before the last."""

from __future__ import annotations

import torch

from searchgym import Episode, ToolResult
from searchgym.engines.simulated.relevance import mentions, telling
from searchgym.rl import (
    AdvantageEstimator,
    Batch,
    Coef,
    Estimate,
    OfMembers,
    Played,
    grpo_advantages,
)
from searchgym.rl.ops import Std, checked_std, masked, spread
from searchgym.types import Page


class MTGRPO(AdvantageEstimator):
    """GRPO of the outcome, and for all turns but the last, which see a result afterwards, that of
    the sum of the turn rewards besides (MT-GRPO, arXiv 2505.11821).

    Args:
        weight: Weight of the second, or ``coef["mt_grpo"]``.
    """

    registered = "advantage:mt_grpo"
    reads = frozenset({"mt_grpo"})
    invariant = frozenset({"shift", "scale"})
    requires = frozenset({"turn_reward"})

    def __init__(self, weight: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.weight, self.eps = float(weight), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        turns = masked(batch.need("turn_reward"), batch.mask).sum(1)
        turns = torch.where(batch.reward.isnan(), batch.reward, turns)
        outcome = batch.need("outcome")
        of_outcome, of_turns = (
            grpo_advantages(reward, batch.group, std=self.std, eps=self.eps)
            for reward in (outcome, turns)
        )
        last = batch.turn == torch.where(batch.mask, batch.turn, -1).amax(1, keepdim=True)
        adv = spread(of_outcome, batch.mask)
        weight = coef.get("mt_grpo", self.weight)
        return Estimate(adv + weight * spread(of_turns, batch.mask & ~last))


class AnswerShown(OfMembers):
    """``turn_answer_shown``: (M, K) 1 for a turn whose results hold an accepted answer as whole
    words, else 0 (MT-GRPO, arXiv 2505.11821). Needs no gold passages. Answers such as yes and
    small numbers, which texts hold everywhere, are shown by none."""

    registered = "signal:answer_shown"
    provides = frozenset({"turn_answer_shown"})

    def of(self, member: Played) -> list[float]:
        return shown_by_turn(member.episode)


def shown_by_turn(episode: Episode) -> list[float]:
    """Return 1.0 for each turn one of whose results holds an accepted answer, else 0.0."""
    answers = [a for a in episode.config.task.answers if telling(a)]
    return [
        float(bool(answers) and any(mentions(_text(episode, r), answers) for r in turn.results
                                    if isinstance(r, ToolResult)))
        for turn in episode.turns
    ]  # fmt: skip


def _text(episode: Episode, result: ToolResult) -> str:
    """Return the text of a result that the policy sees, truncated as the environment does."""
    rules = episode.config.rules
    texts = [f"{p.title} . {p.text[: rules.snippet_chars]}" for p, _ in result.hits]
    texts += [part for part in result.parts if isinstance(part, str)]
    page = result.meta.get("page")
    if isinstance(page, Page):
        texts.append(f"{page.title} . {page.text[: rules.page_chars]}")
    return " . ".join(texts)
