"""How fast a policy plays many turns, with and without reading everything again each turn."""

from __future__ import annotations

import time
from itertools import chain

import pytest
import torch

from searchgym.llms import Sampling, TransformersGenerator
from searchgym.policies import CausalLMPolicy
from tests.benchmarks.table import show
from tests.policies.players import WORDS, model
from tests.policies.talks import Talk, converse

pytestmark = pytest.mark.benchmark

EPISODES, TURNS, WRITTEN, LONGEST = 8, 4, 8, 800


def play(kind: str, reuse: int) -> tuple[float, int, int, list[list[str]]]:
    """Seconds, tokens written, tokens in prompts, and what was said."""
    generator = TransformersGenerator(
        model(kind, hidden_size=256, intermediate_size=768, initializer_range=0.06),
        WORDS,
        reuse_tokens=reuse,
    )
    policy = CausalLMPolicy(generator, sampling=Sampling(max_tokens=WRITTEN))
    talks = [Talk(seed, turns=TURNS, longest=LONGEST) for seed in range(EPISODES)]
    begun = time.perf_counter()
    converse(policy, talks)
    taken = time.perf_counter() - begun
    records = [w for t in talks for w in policy.memory.written(t.id).values()]
    written = sum(len(w.completion.ids or ()) for w in records)
    prompts = sum(len(ids) for w in records for ids in chain(w.prompt))
    return taken, written, prompts, [[s.text for s in t.segments] for t in talks]


def test_turns_with_and_without_reuse() -> None:
    rows = []
    threads = torch.get_num_threads()
    for kind in ("qwen2", "lfm2"):
        play(kind, 0)  # warm-up
        again, written, prompts, said = play(kind, 0)
        reused, _, _, same = play(kind, 1_000_000)
        # rounding differs, which now and then turns a draw
        assert sum(a == b for a, b in zip(said, same, strict=True)) > 0.7 * EPISODES
        rows.append(
            [
                kind, written, prompts, written / again, written / reused,
                f"{again / reused:.2f}x",
            ]
        )  # fmt: skip
    show(
        f"{EPISODES} episodes of {TURNS} turns together, {threads} threads: tokens written per "
        "second",
        ["model", "written", "in prompts", "all read again", "only what is new", "ratio"],
        rows,
    )
    ratios = {str(r[0]): float(str(r[-1])[:-1]) for r in rows}
    assert ratios["qwen2"] > 1.1, "reading less must pay"
    assert ratios["lfm2"] > 0.7, "what cannot be reused must not cost"


def flat(prompts: list[list[int]], made: torch.nn.Module) -> float:
    """Seconds of transformers' own ``generate`` on the prompts of one turn, as one batch."""
    width, pad = max(map(len, prompts)), WORDS.pad_token_id
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    begun = time.perf_counter()
    with torch.inference_mode():
        made.generate(  # type: ignore[operator]
            input_ids=ids, attention_mask=mask, max_new_tokens=WRITTEN, min_new_tokens=WRITTEN,
            do_sample=True, pad_token_id=pad,
        )  # fmt: skip
    return time.perf_counter() - begun


def test_rollouts_beside_flat_generation() -> None:
    """Whole episodes, with all that surrounds them, against ``generate`` on the same prompts."""
    rows = []
    for kind in ("qwen2", "llama"):
        sizes = {"hidden_size": 256, "intermediate_size": 768, "initializer_range": 0.06}
        made = model(kind, **sizes)
        policy = CausalLMPolicy(
            TransformersGenerator(made, WORDS, reuse_tokens=1_000_000),
            sampling=Sampling(max_tokens=WRITTEN),
        )
        for seeds in (range(100, 102), range(EPISODES)):  # the first: a warm-up
            talks = [Talk(seed, turns=TURNS, longest=LONGEST) for seed in seeds]
            begun = time.perf_counter()
            converse(policy, talks)
            ours = time.perf_counter() - begun
        records = [policy.memory.written(t.id) for t in talks]
        theirs = sum(
            flat([[*chain.from_iterable(r[turn].prompt), *r[turn].prefill] for r in records], made)
            for turn in range(TURNS)
        )
        rows.append([kind, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}x"])
    show(
        f"{EPISODES} episodes of {TURNS} turns, {torch.get_num_threads()} threads: seconds",
        ["model", "rollouts", "flat", "ratio"],
        rows,
    )
    assert min(float(row[-1][:-1]) for row in rows) >= 1.0
