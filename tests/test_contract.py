"""The environment is the unit: one subclass with a reward, a tool, a curriculum, parameters and
closed-book episodes is the same environment wherever it is played."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import searchgym as sg
from tests import contract
from tests.cli.conftest import Cli, cli  # noqa: F401  (a fixture)
from tests.cli.files import world  # noqa: F401  (a fixture: a model, passages, questions)
from tests.contract import LoudQA, Scripted
from tests.rl.colours import tokenizer
from tests.serve.conftest import ServerProcess

Rewards = dict[str, float]
SENT = ("as it is", "all")
"""Cases that are played in other processes, where nothing of a case but its keywords matters."""
CASES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "params": {"params": {"w_reward": 0.5}},
    "curriculum": {"curriculum": {"use": "scheduled", "params": {"turns": 3}}},
    "closed book": {"search_enabled": False},
    "all": {
        "params": {"w_reward": 0.5},
        "curriculum": {"use": "scheduled", "params": {"turns": 3}},
        "search_enabled": False,
    },
}
EXPECTED = {
    "as it is": 2 + 0.5 - 0.5 + 0.5,
    "params": 0.5 * 2.5,
    "curriculum": 0.25 - 0.375,  # the third turn is the last: no tool, no answer
    "closed book": 2 - 0.5 + 0.5,
    "all": 0.5 * -0.375,
}
RECIPE: dict[str, Any] = {
    "rollout": {"use": "demonstrations", "expert": "tests.contract:Scripted"},
    "advantage": "ones",
    "loss": "sft",
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def keywords(case: str, world: Path) -> dict[str, Any]:  # noqa: F811
    """Keywords of ``gym.make``, all of plain values, so that a command line can say them."""
    return {
        "corpus": str(world / "corpus.jsonl"), "tasks": str(world / "questions.jsonl"), "k": 1,
        "dialect": "json_tools", "max_turns": 5, "tools": ["search", "tests.contract:Shout"],
        **CASES[case],
    }  # fmt: skip


@pytest.fixture
def stepped(keywords: dict[str, Any], case: str) -> Rewards:
    """What ``step`` pays, task by task: the yardstick."""
    env = gym.make("LoudQA-v0", **keywords)
    rewards: Rewards = {}
    for task in env.unwrapped.tasks:
        env.reset(seed=0, options={"task_id": task.id})
        rewards[task.id] = 0.0
        while requests := env.unwrapped.requests():
            reward = env.step(Scripted().act(requests)[0])[1]
            rewards[task.id] += float(reward)
    assert set(rewards.values()) == {EXPECTED[case]}
    return rewards


def _vector(mode: str | None) -> Callable[[dict[str, Any]], Rewards]:
    def play(keywords: dict[str, Any]) -> Rewards:
        ids = [task.id for task in LoudQA(**keywords).tasks]
        options = {} if mode is None else {"vectorization_mode": mode}
        env = gym.make_vec("LoudQA-v0", len(ids), **options, **keywords)
        native = isinstance(env, sg.SearchVectorEnv)
        assert native == (mode is None)
        if native:
            env.reset(seed=0, options={"task_id": ids})
        else:
            for slot, task in zip(env.envs, ids, strict=True):
                slot.reset(seed=0, options={"task_id": task})
            env._env_obs = [""] * len(ids)
        totals, over = dict.fromkeys(ids, 0.0), [False] * len(ids)
        for turn in range(5):
            text = Scripted().text(turn)
            _, rewards, ended, cut, _ = env.step([text] * len(ids))
            for i, task in enumerate(ids):
                totals[task] += 0.0 if over[i] else float(rewards[i])
                over[i] |= bool(ended[i] or cut[i])
            if all(over):
                return totals
        raise AssertionError("the script ends every episode")

    return play


def _evaluated(keywords: dict[str, Any]) -> Rewards:
    result = sg.evaluate(Scripted(), gym.make("LoudQA-v0", **keywords))
    return {row.task_id: row.reward for row in result.rows}


def _in_workers(keywords: dict[str, Any]) -> Rewards:
    result = sg.evaluate(Scripted(), gym.make("LoudQA-v0", **keywords), workers=2)
    return {row.task_id: row.reward for row in result.rows}


def _transferred(keywords: dict[str, Any]) -> Rewards:
    table = sg.transfer(Scripted(), [gym.make("LoudQA-v0", **keywords)])
    (result,) = table.results["LoudQA-v0", "Scripted"]
    return {row.task_id: row.reward for row in result.rows}


def _session(keywords: dict[str, Any]) -> Rewards:
    env, rewards = LoudQA(**keywords), {}
    for task in env.tasks:
        session = sg.Session(env, task.id)
        while not session.done:
            session.step(Scripted().act(session.episode.requests())[0])
        rewards[task.id] = float(session.reward or 0.0)
    return rewards


@pytest.mark.parametrize(
    "play",
    [_vector(None), _vector("sync"), _evaluated, _transferred, _session],
    ids=["native", "sync", "evaluate", "transfer", "session"],
)
def test_python(
    play: Callable[[dict[str, Any]], Rewards], keywords: dict[str, Any], stepped: Rewards
) -> None:
    assert play(keywords) == stepped


@pytest.mark.parametrize("case", SENT)
def test_python_in_other_processes(keywords: dict[str, Any], stepped: Rewards) -> None:
    assert _in_workers(keywords) == stepped


def _saved(folder: Path) -> Rewards:
    rewards: Rewards = {}
    for line in (folder / "rollouts.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        paid = sum(turn["reward"] for turn in row["turns"])
        assert row["training"]["reward"] == pytest.approx(paid)
        assert rewards.setdefault(row["task_id"], paid) == paid
    return rewards


def _same(saved: Rewards, stepped: Rewards, keywords: dict[str, Any]) -> None:
    """A curriculum draws tasks with replacement; without one, a step of four plays all four."""
    assert saved.items() <= stepped.items()
    assert len(saved) == len(stepped) or ("curriculum" in keywords and len(saved) > 1)


def test_the_trainer(keywords: dict[str, Any], stepped: Rewards, tmp_path: Path) -> None:
    lm = sg.TrainableLM(sg.small_model(tokenizer(), width=32, context=4096), tokenizer())
    recipe = sg.Recipe.of(RECIPE)
    config = sg.TrainConfig.of(recipe, steps=1, tasks=4, lr=1e-4, save_rollouts=4)
    env = gym.make("LoudQA-v0", **keywords)
    list(sg.Trainer(env, lm, recipe, config, out=tmp_path / "run").train())
    _same(_saved(tmp_path / "run"), stepped, keywords)


def _set(keywords: dict[str, Any], prefix: str = "") -> list[str]:
    said = {name: v if isinstance(v, str) else json.dumps(v) for name, v in keywords.items()}
    return [part for name, value in said.items() for part in ("-s", f"{prefix}{name}={value}")]


def test_the_command_eval(
    cli: Cli,  # noqa: F811
    keywords: dict[str, Any],
    stepped: Rewards,
    tmp_path: Path,
) -> None:
    done = cli(
        "eval", "tests.contract:LoudQA-v0", "-a", "tests.contract:Scripted", "--out", tmp_path,
        "--closed-book", "none", *_set(keywords),
    )  # fmt: skip
    assert done.code == 0, done.err
    (path,) = tmp_path.glob("*Scripted.json")
    rows = sg.EvalResult.load(path).rows
    assert {row.task_id: row.reward for row in rows} == stepped


def test_the_command_train(
    cli: Cli,  # noqa: F811
    keywords: dict[str, Any],
    stepped: Rewards,
    tmp_path: Path,
) -> None:
    sg.small_model(tokenizer(), width=32, context=4096).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'advantage = "ones"\nloss = "sft"\n[rollout]\nuse = "demonstrations"\n'
        'expert = "tests.contract:Scripted"\n'
    )
    done = cli(
        "train", recipe, "--model", tmp_path / "model", "--env", "tests.contract:LoudQA-v0",
        "--steps", 1, "-s", "device=cpu", "--out", tmp_path / "run",
        "-s", "train.tasks=4", "-s", "train.save_rollouts=4", *_set(keywords, "env."),
    )  # fmt: skip
    assert done.code == 0, done.err
    _same(_saved(tmp_path / "run"), stepped, keywords)


@pytest.fixture(scope="module")
def server(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:  # noqa: F811
    begun = ServerProcess([world / "corpus.jsonl", "--port", 0], tmp_path_factory.mktemp("served"))
    yield begun
    begun.end()


def test_an_engine_behind_a_server(
    keywords: dict[str, Any], stepped: Rewards, server: ServerProcess
) -> None:
    remote = {**keywords, "engine": {"name": "remote", "url": f"{server.url}/retrieve"}}
    assert _evaluated(remote) == stepped


def test_what_is_unknown_is_refused_by_name(cli: Cli) -> None:  # noqa: F811
    done = cli("eval", "tests.contract:LoudQA-v0", "-a", "rules", "-s", "serch_enabled=false")
    assert (done.code, "Did you mean 'search_enabled'" in done.err) == (2, True)
    assert contract.LoudQA is LoudQA
