"""GRPO's two halves against the nearest thing without an environment: playing against one flat
batch of the same engine, and a whole step against TRL's with the same episodes.

One thread, and its processor time: what a quiet machine's clock would say, on any machine."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.core import Episode, EpisodeConfig, run_episodes
from searchgym.llms import Completion, GenRequest, Sampling, TransformersGenerator
from searchgym.policies import CausalLMPolicy, TrainableLM
from searchgym.rl import Chains, TaskPlan, TrainConfig, Trainer, Workers, read
from searchgym.utils.hardware import one_thread
from tests.benchmarks import trl_grpo
from tests.benchmarks.scripted import Recites, model, setting, tokenizer
from tests.benchmarks.table import show
from tests.policies.eager import NAME

pytestmark = pytest.mark.benchmark

EPISODES, TURNS, WRITTEN, ROUNDS = 16, 4, 32, 3
TASKS, GROUP, TOGETHER, LENGTH, LR = 2, 4, 4, 40, 1e-4


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield


def generator(**options: Any) -> TransformersGenerator:
    """Texts end by length or at a letter that is rare enough, never by an end token."""
    made = TransformersGenerator(model(), tokenizer(), **options)
    made.eos = frozenset()
    return made


def fresh(round_: int) -> list[Episode]:
    there = setting(EPISODES, turns=TURNS, dialect=NAME)
    return [
        Episode(EpisodeConfig(task, there.rules, i, f"{round_}.{i}"))
        for i, task in enumerate(there.tasks)
    ]


@pytest.mark.timeout(3600)
def test_rollout() -> None:
    """Tokens written per second, in episodes and in a flat batch that reads and writes as many.

    The model's steps are so short that what Python does between them counts.
    """
    toolbox = setting(EPISODES, turns=TURNS, dialect=NAME).toolbox
    sampling = Sampling(max_tokens=WRITTEN, stop=("z",))
    flat = generator()
    ways: dict[str, CausalLMPolicy] = {
        "lock step, all read again": CausalLMPolicy(generator(), sampling=sampling),
        "lock step": CausalLMPolicy(generator(reuse_tokens=1_000_000), sampling=sampling),
    }
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    counts = {}
    for round_ in range(ROUNDS + 1):
        for way, policy in ways.items():
            episodes = fresh(round_)
            begun = time.process_time()
            run_episodes(episodes, policy, toolbox, batch=EPISODES)
            taken = time.process_time() - begun
            rows = [row for e in episodes for row in policy.rows(e)]
            asked = [
                GenRequest(
                    tuple(row.ids[~row.sampled].tolist()), Sampling(int(row.sampled.sum())), key=i
                )
                for i, row in enumerate(rows)
            ]
            begun = time.process_time()
            answers = flat.run(asked)
            alone = time.process_time() - begun
            written = sum(int(row.sampled.sum()) for row in rows)
            assert len(rows) == EPISODES
            assert written == sum(len(a.ids or ()) for a in answers if isinstance(a, Completion))
            if round_:  # after a warm-up
                speeds[way].append(written / taken)
                ratios[way].append(alone / taken)
                counts[way] = (written, sum(map(len, rows)) - written)
    found = {way: statistics.median(r) for way, r in ratios.items()}
    show(
        f"{EPISODES} episodes of up to {TURNS} turns together, "
        f"{flat.model.num_parameters() / 1e6:.1f} M parameters, {torch.get_num_threads()} threads: "
        "tokens written per second against a flat batch",
        ["way", "written", "read", "tokens/s", "flat batch = 1"],
        [
            [way, *counts[way], statistics.median(speeds[way]), f"{found[way]:.2f}"]
            for way in ways
        ],
    )  # fmt: skip
    assert found["lock step"] >= 0.8


@contextmanager
def counted(lm: Any) -> Iterator[list[int]]:
    """Padded tokens of each forward pass."""
    seen: list[int] = []
    hook = lm.model.register_forward_pre_hook(
        lambda _, args, named: seen.append(named["input_ids"].numel()), with_kwargs=True
    )
    yield seen
    hook.remove()


def workers(seed: int) -> Workers:
    there = setting(TASKS, turns=TURNS)
    lm = TrainableLM(model(), tokenizer())
    policy = CausalLMPolicy(Recites(lm.model, GROUP, TURNS, LENGTH), sampling=Sampling(512))
    return Workers(policy, there, lm)


def test_step(tmp_path: Path) -> None:
    """Seconds per GRPO step; both play the same episodes and end with the same weights."""
    rows, found = [], {}
    for kind in ("as ours", "default"):
        steps = 5 if kind == "as ours" else 3
        mine, other = workers(0), workers(0)
        (one,) = Chains(GROUP).collect([TaskPlan(mine.env.tasks[0], "look", 0)], mine)
        lengths = [len(row) for m in one.members for row in m.rows]
        tokens = TOGETHER * max(lengths)
        first = copy.deepcopy(mine.lm.state_dict())
        recipe = {**read("grpo"), "rollout": {"use": "chains", "size": GROUP}}
        config = TrainConfig(steps=steps, tasks=TASKS, lr=LR, tokens=tokens)
        ours = Trainer(mine.env, mine.lm, recipe, config, policy=mine.policy)
        theirs = trl_grpo.trainer(
            tmp_path, other, GROUP, together=TOGETHER, steps=steps, lr=LR,
            checkpointing=kind == "default",
        )  # fmt: skip
        with counted(mine.lm) as my_passes, counted(other.lm) as their_passes:
            trl_s, our_s = (t[1:] for t in trl_grpo.take_turns(theirs, ours.advance))
        ratio = statistics.median(a / b for a, b in zip(our_s, trl_s, strict=True))
        found[kind] = ratio
        a, b = mine.lm.state_dict(), other.lm.state_dict()
        moved = sum(float((a[n] - first[n]).square().sum()) for n in a) ** 0.5
        apart = sum(float((a[n] - b[n]).square().sum()) for n in a) ** 0.5
        assert moved > 0.01
        assert apart < 0.01 * moved, "the same update, up to rounding"
        rows.append(
            [kind, len(my_passes) / steps, len(their_passes) / steps, statistics.median(our_s),
             statistics.median(trl_s), f"{ratio:.2f}", f"{apart / moved:.3f}"]
        )  # fmt: skip
    show(
        f"A GRPO step on {TASKS} x {GROUP} episodes of {TURNS} turns, {TOGETHER} per pass, "
        f"{torch.get_num_threads()} threads",
        ["TRL's settings", "passes", "TRL's", "s", "TRL's s", "ratio", "weights apart / moved"],
        rows,
    )
    assert found["as ours"] <= 0.67
