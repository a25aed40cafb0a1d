"""Random walks through episodes that check the contract at every step; shared by tests."""

from __future__ import annotations

import random
from collections import Counter

from searchgym.dialects import get_dialect
from searchgym.envs import step_info
from searchgym.seeding import derive
from searchgym.tools import AccessTool, SearchTool

from .fuzzing import corpus_of_seeds, mutate
from .small import NEIGHBORS, RANK, TASKS, episode, lookup


def fuzz(dialect: str, actions: int, seed: int) -> Counter[str]:
    """Feed mutated transcripts to episodes; returns how often each kind of action came out.

    Checked after every action: the phases are in order, exactly one of running, terminated and
    truncated holds, budgets hold, rewards are finite, texts can be encoded, nothing of the gold is
    in ``info`` before the end, and a page's tags never become an action.
    """
    rng = random.Random(derive(seed, "fuzz", dialect))
    seeds = corpus_of_seeds(get_dialect(dialect))
    counts: Counter[str] = Counter()
    e = None
    while counts["actions"] < actions:
        if e is None or e.phase == "done":
            counts["episodes"] += 1
            e = episode(
                TASKS[counts["episodes"] % 2], seed=counts["episodes"], dialect=dialect,
                judge=True, delegate=True, max_parallel=3, max_queries=5, page_stub_chars=40,
                tools=(SearchTool.spec, AccessTool.spec, NEIGHBORS, RANK),
            )  # fmt: skip
        text = mutate(rng, rng.choice(seeds))
        before = len(e.turns)
        e.act(text)
        while e.phase == "receive":
            e.receive(lookup(e.pending))
        counts["actions"] += 1
        assert len(e.turns) == before + 1
        turn = e.turns[-1]
        counts[type(turn.action).__name__] += 1
        assert (e.phase == "done") == (e.terminated or e.truncated)
        assert not (e.terminated and e.truncated)
        assert len(e.turns) <= e.config.rules.max_turns
        assert e.queries <= 5
        assert turn.reward == turn.reward
        for span in turn.spans:
            assert 0 <= span.start <= span.end <= len(turn.text)
        e.delta.encode("utf-8")
        info = step_info(e)
        assert ("outcome" in info) == (e.phase == "done")
        assert len(e.requests()) == (e.phase == "act")
    return counts
