"""Folders of real runs, as small as they can be."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from searchgym import ConstantAgent, FirstHitAgent, RandomAgent, RulesAgent
from searchgym.agents import OracleAgent
from searchgym.benchmark import Rung, oracle, transfer
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate, note_machine
from searchgym.rl import Log, Plan
from tests.small import CORPUS, TASKS

EVIL = '</script><script>document.title="broken"</script><img src=x onerror=alert(1)>'
STEPS = 30


def training(folder: Path, seed: int, *, lr: float = 1e-5, steps: int = STEPS) -> Path:
    """A run's folder as the trainer leaves it, with a curve that is known."""
    folder.mkdir(parents=True)
    Plan.of("grpo", "runs/warm", {}, env="SimpleQA-v0", train={"seed": seed, "lr": lr}).save(folder)
    note_machine(folder)
    log = Log(folder / "rl.jsonl")
    for step in range(steps):
        reward = 0.1 + 0.02 * step + 0.01 * seed
        metrics = {
            "step": step, "episodes": 8.0, "infra_errors": 0.0, "reward": reward,
            "em": reward / 2, "f1": reward / 1.5, "searches": 1.0 + step / 30, "turns": 2.0,
            "completion_length": 90.0, "invalid": 0.1, "truncated": 0.0,
            "entropy": 3.0 * 0.9**step, "frac_reward_zero_std": 0.25, "grad_norm": 0.5,
            "rewards/f1": reward, "difficulty/max_hops": 2.0 + step // 10, "coef/kl": 0.01,
            "rollout_s": 1.0, "update_s": 0.5, "loss": math.nan if step == 3 else 0.1,
        }  # fmt: skip
        if step == 5:
            metrics["rewards/format"] = 0.2
        log.write(metrics, ["entropy_collapse"] if step == 25 else ())
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three seeds of one run, and one of another learning rate."""
    root = tmp_path_factory.mktemp("trained")
    same = [training(root / f"seed-{seed}", seed) for seed in (0, 1, 2)]
    return [*same, training(root / "faster", 0, lr=1e-4)]


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three agents on generated questions, one of them without tools, too."""
    folder = tmp_path_factory.mktemp("evaluated")
    made = SearchEnv(
        **{"corpus": "encyclopedia", "world": {"entities": 400},
         "tasks": {"simple": 14, "chain-2": 13}}
    )  # fmt: skip
    agents = {"rules": RulesAgent(), "first-hit": FirstHitAgent(),
              "oracle": OracleAgent(made.tasks)}  # fmt: skip
    for name, agent in agents.items():
        evaluate(agent, made, name=name, label="SimpleQA").save(folder / f"{name}.json")
    closed = evaluate(RulesAgent(), made, name="rules", label="SimpleQA", search_enabled=False)
    closed.save(folder / "rules.closed.json")
    (folder / "other.json").write_text('{"no": "result"}', encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def climbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transfer table of two rungs, a trained agent with two seeds, and a hostile name."""
    folder = tmp_path_factory.mktemp("climbed")
    keywords = {"corpus": CORPUS, "tasks": TASKS}
    rungs = [Rung("home", "generated", keywords, EVIL), Rung("away", "real", keywords, "by hand")]
    table = transfer(
        {"random": RandomAgent(), EVIL: ConstantAgent("x"), "oracle": oracle,
         "trained": [ConstantAgent("Mira Venn"), ConstantAgent("Quell")]},
        rungs,
    )  # fmt: skip
    table.save_json(folder / "transfer.json", table.contrasts("trained", ["random"]))
    data = json.loads((folder / "transfer.json").read_text(encoding="utf-8"))
    assert data["complete"]
    return folder
