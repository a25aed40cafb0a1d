"""The turn reward that needs no gold passages: did the results hold an accepted answer?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from searchgym.envs import SearchEnv
from searchgym.rl import Batch, Recipe, TrainConfig, Trainer
from searchgym.types import Task
from searchgym_agents.methods.mt_grpo import shown_by_turn
from tests.rl import lookup
from tests.small import CORPUS, TASKS


def played(task: Task, *texts: str, **options: Any) -> list[float]:
    env = SearchEnv(
        corpus=CORPUS, tasks=[task], tools=("search", "access"), dialect="asearcher", **options
    )
    env.reset(seed=0)
    for text in texts:
        env.step(text)
    return shown_by_turn(env.unwrapped.episode)


def test_a_turn_is_paid_for_what_it_shows() -> None:
    task = replace(TASKS[0], evidence=(), queries=())  # born in Quell
    search, page = "<search>Mira Venn</search>", "<access>https://w.example/Quell</access>"
    assert played(task, "<search>Osten river</search>", search, "<answer>x</answer>", k=1) == [
        0, 1, 0,
    ]  # fmt: skip
    assert played(task, page, "nonsense") == [1, 0]
    assert played(task, search, k=1, snippet_chars=20) == [0], "cut off before the answer"
    assert played(task, "<access>https://w.example/none</access>") == [0]
    assert played(replace(task, answers=("no", "4")), page) == [0], "words that stand everywhere"


def batch_of(recipe: Any, tasks: list[Task]) -> Batch:
    """What one step trains on, with its advantages."""
    lm, policy = lookup.player(0)
    env = SearchEnv(
        corpus=lookup.CORPUS, tasks=tasks, engine=lookup.BoxEngine(), dialect="plain", k=1,
        max_turns=2,
    )  # fmt: skip
    found: list[Batch] = []
    config = TrainConfig.of(Recipe.of(recipe), steps=1, tasks=4, lr=1e-3, seed=1)
    run = Trainer(env, lm, recipe, config, policy=policy)
    update = run.updater.update

    def watched(batch: Batch, coef: Any, step: int) -> Any:
        found.append(batch)
        return update(batch, coef, step)

    run.updater.update = watched  # type: ignore[method-assign]
    list(run.train())
    return found[0]


@pytest.mark.parametrize("gold", [True, False])
def test_mt_grpo_tells_turns_apart_with_and_without_gold_passages(gold: bool) -> None:
    tasks = [lookup._task(box) for box in range(12)]
    if not gold:
        tasks = [replace(t, evidence=(), queries=()) for t in tasks]
    batch = batch_of("mt_grpo", tasks)
    adv = batch.need("adv")
    assert adv.ndim == 2
    apart = [len(torch.unique(adv[i][batch.mask[i]])) > 1 for i in range(len(batch))]
    assert any(apart), "the searching turn of some episode is paid otherwise than the last"
