"""The same reward gives the same floats wherever the environment is played."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym.agents import FunctionAgent
from searchgym.core import Trajectory, read_jsonl
from searchgym.envs import SearchEnv
from searchgym.errors import SearchGymError
from searchgym.evaluation import EvalResult, compare, evaluate, own_metrics
from searchgym.rewards import Reward, per_turn
from searchgym.rl import Group, Parts, Played, Return, TaskPlan, TurnParts, TurnReturns, minimal
from searchgym.scoring import SCORING_VERSION

from ..small import CORPUS, TASKS, episode, play
from . import own

PATH = "tests.rewards.own:"
SPEC: dict[str, Any] = {
    "em": 1, "search": -0.1, "evidence": 0.25, f"{PATH}brevity": 0.5, f"{PATH}novelty": 0.125,
}  # fmt: skip
FORMS: dict[str, Any] = {
    "table": SPEC,
    "list": ["em", {"search": -0.1, "evidence": 0.25}, {own.brevity: 0.5}, {own.novelty: 0.125}],
    "reward": Reward.of(SPEC),
}
OWN: dict[str, Any] = {"corpus": CORPUS, "tasks": list(TASKS), "max_turns": 3}
SCRIPTS = {
    "t1": (
        "<search>Aldor founder</search>", "<search>Mira Venn born</search>",
        "<answer>Quell</answer>",
    ),
    "t2": ("<search>Osten</search>", "hm", "no answer in time"),
}  # fmt: skip


class Scripted:
    """Says each task's next line."""

    def act(self, requests: Any) -> list[str]:
        lines = []
        for request in requests:
            question = request.segments[1].text
            task = next(t for t in TASKS if t.question in question)
            lines.append(SCRIPTS[task.id][request.turn])
        return lines


def by_hand(task_id: str) -> list[float]:
    """Rewards of the turns from an episode alone."""
    task = next(t for t in TASKS if t.id == task_id)
    e = episode(task, reward=Reward.of(SPEC), max_turns=3, tools=SearchEnv(**OWN).rules.tools)
    return [
        turn.reward for turn in play(e, *SCRIPTS[task_id], run=SearchEnv(**OWN).toolbox.run).turns
    ]


def steps(env: gym.Env[Any, Any], task_id: str) -> list[float]:
    env.reset(options={"task_id": task_id})
    return [float(env.step(text)[1]) for text in SCRIPTS[task_id]]


@pytest.mark.parametrize("form", FORMS)
def test_through_every_door(form: str, tmp_path: Path) -> None:
    spec = FORMS[form]
    wanted = {task.id: by_hand(task.id) for task in TASKS}
    assert wanted["t1"] != wanted["t2"]
    env = gym.make("SearchQA-v0", **OWN, reward=spec)
    assert {t: steps(env, t) for t in SCRIPTS} == wanted
    for mode in ("sync", "vector_entry_point"):
        envs = gym.make_vec("SearchQA-v0", 2, vectorization_mode=mode, **OWN, reward=spec)
        for task_id, script in SCRIPTS.items():
            envs.reset(seed=0, options={"task_id": task_id})
            got = [envs.step([text] * 2)[1].tolist() for text in script]
            assert got == [[reward] * 2 for reward in wanted[task_id]], mode
        envs.close()
    result = evaluate(
        Scripted(),
        SearchEnv(**{**OWN, "reward": spec}),
        name="scripted",
        out=tmp_path / "scripted.json",
    )
    assert {row.task_id: row.reward for row in result.rows} == {
        task_id: sum(rewards) for task_id, rewards in wanted.items()
    }
    assert own_metrics(result.rows) == ("brevity", "novelty")
    assert result.means["brevity"].mean == 0.5
    for line in read_jsonl(tmp_path / "scripted.trajectories.jsonl"):
        assert [turn["reward"] for turn in line.turns] == wanted[line.task_id]
        assert [t.reward for t in line.replay(reward=spec).turns] == wanted[line.task_id]
    # what is on disk is taken up again with the environment's own reward
    again = evaluate(
        Scripted(),
        SearchEnv(**{**OWN, "reward": spec}),
        name="scripted",
        out=tmp_path / "scripted.json",
    )
    assert again == result


def test_results_keep_own_parts_and_refuse_another_scoring(tmp_path: Path) -> None:
    made = SearchEnv(**{**OWN, "reward": SPEC})
    result = evaluate(Scripted(), made, name="a")
    path = result.save(tmp_path / "a.json")
    assert EvalResult.load(path) == result
    assert compare(result, result, "brevity").mean_a == 0.5
    data = json.loads(path.read_text())
    del data["settings"]["scoring"]["version"]
    path.write_text(json.dumps(data))
    older = EvalResult.load(path)
    assert (older.scoring_version, result.scoring_version) == (1, SCORING_VERSION)
    with pytest.raises(SearchGymError, match=r"different scoring\.version \(1 and \d\)"):
        compare(older, result)
    assert compare(older, result, despite=("scoring",)).difference.mean == 0


def test_a_changed_own_part_is_another_environment(tmp_path: Path) -> None:
    first = evaluate(Scripted(), SearchEnv(**OWN, reward=own.brevity), name="a")
    second = evaluate(Scripted(), SearchEnv(**OWN, reward=own.novelty), name="b")
    with pytest.raises(SearchGymError, match=r"rules\.reward\.brevity"):
        compare(first, second)


def groups(spec: Any, *, broken: bool = False) -> list[Group]:
    """One group of both tasks' episodes, played; the last lost, if asked."""
    from searchgym.types import Failure

    made = SearchEnv(**{**OWN, "reward": spec})
    members = []
    for task in TASKS:
        e = episode(task, reward=made.rules.reward, max_turns=3, tools=made.rules.tools)
        members.append(Played(play(e, *SCRIPTS[task.id], run=made.toolbox.run), ()))
    if broken:
        e = episode(reward=made.rules.reward, max_retries=0)
        e.act("<search>Aldor</search>")
        e.receive([Failure("unavailable", "down")])
        members.append(Played(e, ()))
    return [Group(TaskPlan("g", TASKS[0], len(members), 0), tuple(members))]


def test_signals_of_a_recipe_see_the_same_numbers() -> None:
    found = groups(SPEC, broken=True)
    wanted = [by_hand("t1"), by_hand("t2")]
    workers: Any = None
    returns = Return().measure(found, workers)[0]["return"]
    assert returns[:2].tolist() == [sum(w) for w in wanted]
    assert np.isnan(returns[2]), "infrastructure: no reward, not 0"
    assert np.isnan(minimal.total(found[0].members[2].episode))
    assert TurnReturns().measure(found, workers)[0]["turn_return"][:2].tolist() == wanted
    parts = Parts(["em", "brevity", "novelty", "search"]).measure(found, workers)[0]
    assert parts["brevity"][:2].tolist() == [1.0, 0.0]
    assert parts["search"][:2].tolist() == [2.0, 1.0]
    assert np.isnan(parts["brevity"][2])
    turns = TurnParts(["novelty"]).measure(found, workers)[0]["turn_novelty"]
    assert turns[0].tolist()[:2] == [1.0, 1.0]
    with pytest.raises(
        SearchGymError, match=r"unknown reward part 'brevety'.*name it in the environm"
    ):
        Parts(["brevety"]).measure(found, workers)
    with pytest.raises(SearchGymError, match="unknown part of turns 'brevity'"):
        TurnParts(["brevity"]).measure(found, workers)


def test_curricula_set_the_weight_of_own_parts() -> None:
    env = SearchEnv(**OWN, reward={"em": 1, own.brevity: 0.5}, params={"w_brevity": 2.0})
    env.reset(options={"task_id": "t2"})
    assert env.step("<answer>Mira Venn</answer>")[1] == 1.0 + 2.0
    env.reset(options={"task_id": "t2", "params": {"w_brevity": 0.25}})
    assert env.step("<answer>Mira Venn</answer>")[1] == 1.25
    with pytest.raises(SearchGymError, match="unknown reward part 'brevety'"):
        env.reset(options={"params": {"w_brevety": 1}})


class Game:
    """As an environment's method would be: bound, with a state that it reads only."""

    bonus = 0.5

    def reward(self, outcome: Any) -> dict[str, float]:
        return {"right": outcome.em, "bonus": self.bonus}

    @per_turn
    def each(self, outcome: Any) -> float:
        return 0.125


def test_a_bound_method_is_a_reward() -> None:
    game = Game()
    made = Reward.of(game.reward)
    e = play(episode(reward=made), "<search>Aldor</search>", "<answer>Quell</answer>")
    assert [t.reward for t in e.turns] == [0.0, 1.5]
    parts = e.parts or {}
    assert (parts["reward"], parts["reward.right"], parts["reward.bonus"]) == (1.5, 1.0, 0.5)
    assert made.to_json()["reward"]["use"] == "tests.rewards.test_everywhere:Game.reward"
    from searchgym.core import Episode

    again = Episode.restore(e.snapshot(), reward=game.reward)
    assert again.turns == e.turns
    each = play(episode(reward=Reward.of(game.each)), "hm", "<answer>Quell</answer>")
    assert [t.reward for t in each.turns] == [0.125, 0.125]


def test_infos_of_vector_environments_stack() -> None:
    envs = gym.make_vec(
        "SearchQA-v0", 2, vectorization_mode="vector_entry_point", **OWN, reward=SPEC
    )
    envs.reset(seed=0, options={"task_id": "t1"})
    infos = envs.step(["<answer>Quell</answer>", "<search>Aldor</search>"])[-1]
    assert infos["outcome"]["brevity"].tolist() == [1.0, 0.0]
    assert infos["_outcome"].tolist() == [True, False]
    assert infos["reward_parts"]["em"].tolist() == [1.0, 0.0]
    assert Trajectory.of(envs.unwrapped.episodes[0]).ret == 1.5  # type: ignore[attr-defined]


def test_the_example_of_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "envs" / "README.md").read_text(encoding="utf-8")
    (program,) = (p for p in re.findall(r"```python\n(.*?)```", readme, re.S) if "def brevity" in p)
    scope: dict[str, Any] = {"gym": gym}
    exec(compile(program, "README", "exec"), scope)
    env = scope["env"]
    env.reset(seed=0)
    task = env.unwrapped.episode.config.task
    assert env.step(f"<search> {task.queries[0]} </search>")[1] == -0.02
    assert env.step(f"<answer> {task.answers[0]} </answer>")[1] == pytest.approx(1.1)


def test_an_environment_with_own_rewards_keeps_its_promises() -> None:
    from searchgym.envs import check_env

    check_env(
        SearchEnv(**{**OWN, "max_turns": 6}, reward=[{"em": 1, own.brevity: 0.5}, own.novelty])
    )
    check_env(SearchEnv(**{**OWN, "max_turns": 6}, reward={"em": 1, "half": lambda outcome: 0.5}))


def test_info_tells_nothing_of_gold_passages_before_the_end() -> None:
    env = SearchEnv(**OWN, reward={"em": 1, own.novelty: 0})
    env.reset(options={"task_id": "t1"})
    assert env.step(SCRIPTS["t1"][0])[-1]["reward_parts"] == {"search": 1.0}
    env.step(SCRIPTS["t1"][1])
    info = env.step(SCRIPTS["t1"][2])[-1]
    assert info["outcome"]["evidence_recall"] == 1.0
    assert info["outcome"]["novelty"] == 2.0
    paid = SearchEnv(**OWN, reward={"em": 1, "evidence": 0.5})
    paid.reset(options={"task_id": "t1"})
    assert paid.step(SCRIPTS["t1"][0])[-1]["reward_parts"] == {"search": 1.0, "evidence": 0.5}


def test_groups_travel_between_processes() -> None:
    from searchgym.rl import pack, unpack

    (group,) = groups(SPEC)
    packed = json.loads(json.dumps([(snapshot,) for snapshot, *_ in pack(group)]))
    again = unpack(group.plan, [(snapshot, (), "train", None) for (snapshot,) in packed])
    assert [m.episode.turns for m in again.members] == [m.episode.turns for m in group.members]
    nameless = {"em": 1, "half": lambda outcome: 0.5}
    (group,) = groups(nameless)
    with pytest.raises(SearchGymError, match=r"'half' .* has no import path"):
        unpack(group.plan, pack(group))
    rewards = group.members[0].episode.config.rules.reward
    assert unpack(group.plan, pack(group), rewards).members[0].episode.turns[-1].reward == 1.5


def test_processes_of_an_evaluation_share_a_named_reward() -> None:
    made = SearchEnv(world={"entities": 60}, tasks={"simple": 4}, reward=own.brevity)
    agent = FunctionAgent(own.last_words)
    alone = evaluate(agent, made)
    shared = evaluate(agent, made, workers=2)
    assert [row.reward for row in shared.rows] == [row.reward for row in alone.rows]
    assert alone.means["brevity"].n == len(made.tasks)


class Paying(SearchEnv):
    """An environment whose own method is its reward."""

    def __init__(self, **options: Any) -> None:
        self.bonus = 0.5
        super().__init__(reward=self.pay, **options)

    def pay(self, outcome: Any) -> dict[str, float]:
        return {"right": outcome.em, "bonus": self.bonus}


def test_a_method_of_an_environment_survives_forks_snapshots_and_pickles() -> None:
    env = Paying(**OWN)
    env.reset(options={"task_id": "t1"})
    env.step(SCRIPTS["t1"][0])
    twin, copy = env.fork(), pickle.loads(pickle.dumps(env))
    assert copy is not env
    assert copy.rules.reward.parts[0].measure.__self__ is copy
    other = Paying(**OWN)
    other.restore(json.loads(json.dumps(env.snapshot())))
    for each in (env, twin, copy, other):
        reward, _, _, info = each.step("<answer>Quell</answer>")[1:]
        assert (reward, info["outcome"]["pay.bonus"]) == (1.5, 0.5)
