"""A training run in one of several processes, as ``torchrun`` starts them."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import torch
import transformers.models.llama.modeling_llama  # noqa: F401
from safetensors.torch import load_file, save_file

from searchgym.engines import BM25Engine  # noqa: F401
from searchgym.errors import EngineError
from searchgym.llms import TransformersGenerator
from searchgym.policies import CausalLMPolicy, Lora, TrainableLM
from searchgym.rl import OwnWeights
from searchgym.rl.processes import Processes
from searchgym.rl.recipe import Recipe
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl import lookup
from tests.rl.colours import SAMPLING, blank, setting, tokenizer


def ready(how: str | None, options: dict[str, Any]) -> tuple[TrainableLM, CausalLMPolicy]:
    """The warm model and a policy, with a generator of its own where weights are in shards."""
    model = blank()
    model.load_state_dict(load_file(options["warm"]), strict=False)
    lora = Lora(rank=4, alpha=8) if options.get("lora") else None
    own = copy.deepcopy(model) if how == "fsdp" and not options.get("shared") else model
    lm = TrainableLM(
        model, tokenizer(), lora=lora, reference=True, tokens=options.get("pass_tokens", 65_536)
    )
    policy = CausalLMPolicy(TransformersGenerator(own, tokenizer()), sampling=SAMPLING, seed=5)
    return lm, policy


def state(run: Trainer) -> dict[str, torch.Tensor]:
    """The trained weights of all roles."""
    models = run.cast.lms.items()
    return {f"{role}/{n}": w for role, lm in models for n, w in lm.state_dict().items()}


def train(how: str | None, out: Path, options: dict[str, Any]) -> Trainer:
    """All steps; ``how=None``: in this process alone."""
    env, roles = setting(), {}
    if role := options.get("role"):  # with weights of its own
        env, roles = lookup.shelf(2), {role: OwnWeights(*lookup.player(5))}
        lm, policy = lookup.player(5)
    else:
        lm, policy = ready(how, options)
    recipe = Recipe.of(options["recipe"])
    config = TrainConfig.of(recipe, **{"lr": 5e-3, "seed": 5, **options["config"]})
    processes = Processes(how, cpu=True) if how else None  # type: ignore[arg-type]
    trainer = Trainer(
        env, lm, recipe, config, policy=policy, processes=processes, out=out, roles=roles
    )
    list(trainer.train())
    return trainer


def main(index: int, count: int, port: int, how: str, out: str, jobs: list[dict[str, Any]]) -> None:
    """Write what process ``index`` ends with, per job."""
    os.environ |= {
        "RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    for number, options in enumerate(jobs):
        folder = Path(out) / str(number)
        report: dict[str, Any] = {}
        try:
            trainer = train(how, folder, options)
        except EngineError as error:
            report["error"] = str(error)
        else:
            report["wrapped"] = [c.__name__ for c in type(trainer.lm.wrapped).__mro__]
            report["metrics"] = trainer.metrics
            report["local"] = sum(
                getattr(p, "_local_tensor", p).numel() for p in trainer.lm.model.parameters()
            )
            report["acts"] = float(
                sum(p.detach().double().abs().sum() for p in _acting(trainer).parameters())
            )
            save_file(state(trainer), str(Path(out) / f"{number}.{index}.safetensors"))
        (Path(out) / f"{number}.{index}.json").write_text(json.dumps(report))
    torch.distributed.barrier()  # who is first waits, so that the others still find the group
    torch.distributed.destroy_process_group()


def _acting(trainer: Trainer) -> Any:
    generator: Any = trainer.policy.generator
    return generator.model
