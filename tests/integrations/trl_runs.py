"""Short trainings by TRL's trainer, unmodified, in which a script writes or ours rolls out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trl

from searchgym.integrations import trl as bridge
from searchgym.llms import Sampling
from tests.integrations.scene import chat_tokenizer
from tests.llms import tiny

GROUP = 4


CONFIG: dict[str, Any] = {
    "report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no",
    "max_steps": 3, "seed": 1, "learning_rate": 1e-3, "beta": 0.0, "num_generations": GROUP,
    "per_device_train_batch_size": 2 * GROUP, "logging_steps": 1,
}  # fmt: skip


def model(words: Any) -> Any:
    return tiny.model(
        vocabulary=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=4096,
    )  # fmt: skip


class Scripted(trl.GRPOTrainer):
    """TRL's trainer, in which a script writes in place of the untrained model."""

    def script(self, member: int, turn: int) -> str:
        raise NotImplementedError

    def _generate_single_turn(self, prompt_ids, *_: Any, **__: Any):  # type: ignore[no-untyped-def]
        words = self.processing_class
        texts = [words.decode(ids) for ids in prompt_ids]
        self.seen = [*getattr(self, "seen", []), texts]
        turn = 0 if "<tool_response>" not in texts[0] else 1
        said = [self.script(place, turn) for place in range(len(texts))]
        return [words(text, add_special_tokens=False)["input_ids"] for text in said], None


def call(query: str) -> str:
    body = json.dumps({"name": "search", "arguments": {"query": query}})
    return f"<tool_call>\n{body}\n</tool_call><|im_end|>"


def trained(
    folder: Path, env: Any, script: Any, reward: Any = None, **changes: Any
) -> tuple[Scripted, list[dict[str, Any]]]:
    words = chat_tokenizer()
    kind = type("Trainer", (Scripted,), {"script": script})
    trainer = kind(
        model=model(words),
        args=trl.GRPOConfig(
            output_dir=str(folder), **{**CONFIG, **bridge.settings(env), **changes},
            max_completion_length=4096,
        ),
        train_dataset=bridge.dataset(env, words),
        reward_funcs=reward or bridge.reward,
        processing_class=words,
        environment_factory=bridge.environment(env, words),
    )  # fmt: skip
    trainer.train()
    return trainer, [log for log in trainer.state.log_history if "reward" in log]


class Watched(trl.GRPOTrainer):
    """TRL's trainer, which keeps what it was given to train on."""

    def _generate_and_score_completions(self, inputs):  # type: ignore[no-untyped-def]
        made = super()._generate_and_score_completions(inputs)
        self.batches = [*getattr(self, "batches", []), made]
        return made


def rolled(
    folder: Path, env: Any, rollout: Any = None, **changes: Any
) -> tuple[Watched, list[dict[str, Any]], list[dict[str, Any]]]:
    words = tiny.tokenizer()
    play = rollout or bridge.rollout(env, renderer="plain", sampling=Sampling(max_tokens=12))
    played = []

    def recorded(prompts: Any, trainer: Any) -> Any:
        played.append(play(prompts, trainer))
        return {name: list(rows) for name, rows in played[-1].items()}

    trainer = Watched(
        model=model(words),
        args=trl.GRPOConfig(
            output_dir=str(folder), **{**CONFIG, "max_completion_length": 4096, **changes}
        ),
        train_dataset=bridge.dataset(env, words), reward_funcs=bridge.rollout_reward,
        processing_class=words, rollout_func=recorded,
    )  # fmt: skip
    trainer.train()
    logs = [log for log in trainer.state.log_history if "reward" in log]
    return trainer, logs, played
