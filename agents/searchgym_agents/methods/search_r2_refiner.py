"""Search-R2's rollout: another role accepts an episode, or says where it is cut and begun anew."""

from __future__ import annotations

import re

from searchgym import Episode
from searchgym.core.state import Contexts
from searchgym.rl import SecondTries, TurnTree, returns
from searchgym.seeding import derive

from .asides import Aside, ask, members

REFINER = "refiner"
ACCEPT = "accept"
_VERDICT = re.compile(rf"\b{ACCEPT}|\d+", re.IGNORECASE)


class Refined(SecondTries):
    """Half of ``size`` chains, each of which the role ``"refiner"`` reads. It accepts a chain, or
    names the first turn that went wrong: the chain is cut before it and the rest written anew
    (Search-R2, arXiv 2602.03647). A chain that is accepted, or about which nothing intelligible is
    said, or nothing at all since the infrastructure failed, stays as it is. Both the chain and its
    second try are members.

    If the policy itself is the refiner, each judgement is a member, too, which serves the episode
    that came of it (reward ``served``).

    Args:
        size: Members of a group, at most, without the judgements; an even number.
        chars: Characters of each turn, and of what it was shown, that the refiner reads.
    """

    registered = "rollout:refined"
    roles = frozenset({REFINER})

    def __init__(self, size: int = 8, chars: int = 400) -> None:
        super().__init__(size)
        if chars < 1:
            raise ValueError(f"chars must be at least 1, got {chars}")
        self.chars = chars

    def again(self, tree: TurnTree) -> None:
        places = list(returns(tree))  # what the infrastructure broke is nobody's fault
        chains = [tree.branches[place].episode for place in places]
        judged = ask(REFINER, [self._aside(chain) for chain in chains], tree.workers)
        ends = []
        for place, verdict in zip(places, judged, strict=True):
            turn = cut_of(verdict)
            at = place if turn is None else tree.fork(place, turn)
            ends.append(tree.branches[at].episode.config.episode_id)
        tree.asides += members(REFINER, judged, ends, [-1] * len(judged), tree.workers)

    def _aside(self, episode: Episode) -> Aside:
        task, shown = episode.config.task, transcript(episode, self.chars)
        return Aside(
            f"{episode.config.episode_id}.{REFINER}",
            derive(episode.config.seed, REFINER),
            f"{task.question}\n{shown}\nAnswer '{ACCEPT}', or with the number of the first turn "
            "that went wrong.",
            ACCEPT,
            meta={"turns": len(episode.turns)},
        )


def cut_of(verdict: Episode) -> int | None:
    """Read a judgement: the turn, from 0, before which a chain is cut. None if it is accepted, or
    if the first word or number that says so is of no turn."""
    match = _VERDICT.search(verdict.answer)
    if match is None or match[0].lower() == ACCEPT:
        return None
    turn = int(match[0]) - 1
    return turn if 0 <= turn < int(verdict.config.task.meta["turns"]) else None


def transcript(episode: Episode, chars: int) -> str:
    """Texts that were written and shown, turn by turn, each cut after ``chars`` characters."""
    contexts: Contexts = episode.contexts
    lines, turn = [], 0
    for segment in contexts.segments:
        if segment.author == "policy":
            turn += 1
            lines.append(f"turn {turn}: {segment.text.strip()[:chars]}")
        elif turn:
            lines.append(f"shown: {segment.text.strip()[:chars]}")
    return "\n".join(lines)
