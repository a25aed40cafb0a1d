"""TRL's GRPO on episodes of ours, through ``rollout_func``: as it is, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from searchgym.rl import Chains, Played, TaskPlan, Workers, total


def rollout(workers: Workers, group: int) -> Callable[[list[str], Any], dict[str, list[Any]]]:
    """What TRL calls for a batch of prompts, each task's ``group`` times in a row."""
    by_question = {task.question: task for task in workers.env.tasks}
    count = 0

    def play(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        nonlocal count
        count += 1
        plans = [
            TaskPlan(by_question[question], f"{count}.{i}", i)
            for i, question in enumerate(prompts[::group])
        ]
        groups = Chains(group).collect(plans, workers)
        return answer([m for g in groups for m in g.members])

    return play


def answer(members: Sequence[Played]) -> dict[str, list[Any]]:
    """Rows as TRL takes them: the prompt, then all that was written and read after it."""
    made: dict[str, list[Any]] = {
        name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "earned")
    }
    for member in members:
        (row,) = member.rows
        first = int(row.sampled.argmax())
        made["prompt_ids"].append(row.ids[:first].tolist())
        made["completion_ids"].append(row.ids[first:].tolist())
        made["logprobs"].append(row.logp[first:].tolist())
        made["env_mask"].append(row.loss_mask[first:].astype(np.int64).tolist())
        made["earned"].append(total(member))
    return made


def trainer(
    folder: Path, workers: Workers, group: int, *, together: int, steps: int, lr: float,
    checkpointing: bool = False,
) -> Any:  # fmt: skip
    """GRPO without KL term, one update per step on all of ``workers``' tasks, ``together``
    trajectories per forward pass; otherwise TRL's defaults."""
    import trl
    from datasets import Dataset

    tasks = workers.env.tasks
    config = trl.GRPOConfig(
        output_dir=str(folder), report_to=[], use_cpu=True, bf16=False, disable_tqdm=True,
        save_strategy="no", max_steps=steps, seed=1, learning_rate=lr,
        lr_scheduler_type="constant", adam_beta2=0.95, max_grad_norm=1.0, loss_type="grpo",
        beta=0.0, gradient_checkpointing=checkpointing, num_generations=group,
        per_device_train_batch_size=together,
        gradient_accumulation_steps=len(tasks) * group // together, max_completion_length=4096,
    )  # fmt: skip
    return trl.GRPOTrainer(
        model=workers.lm.model,
        reward_funcs=lambda earned, **_: earned,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [t.question for t in tasks]}),
        processing_class=workers.lm.tokenizer,
        rollout_func=rollout(workers, group),
    )


def take_turns(theirs: Any, ours: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Seconds of TRL's steps, with all that its loop does around them, and of ours between them."""
    from transformers import TrainerCallback

    times: tuple[list[float], list[float]] = ([], [])

    class Between(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.begun = time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            middle = time.process_time()
            times[0].append(middle - self.begun)
            ours()
            self.begun = time.process_time()
            times[1].append(self.begun - middle)

    theirs.add_callback(Between())
    theirs.train()
    return times
