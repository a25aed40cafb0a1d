"""Environments with wrappers and overrides that act in ``step`` are played through it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import (
    DelayObservation,
    FrameStackObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TransformAction,
    TransformObservation,
    TransformReward,
)

import searchgym as sg
from searchgym.agents import ConstantAgent, FirstHitAgent
from searchgym.errors import CardError, EpisodeError, RewardError
from searchgym.types import Passage, Task

pytestmark = pytest.mark.filterwarnings("ignore:.*acts in step and reset")
CORPUS = sg.Corpus(
    "things",
    [Passage(f"p{i}", t, f"{t} is blue.", f"u{i}") for i, t in enumerate(("Aldor", "Belu"))],
)
TASKS = [
    Task(f"t{i}", f"{t}?", ("blue",), (f"p{i}",), (t,), "simple", 1)
    for i, t in enumerate(("Aldor", "Belu"))
]


def env(**keywords: Any) -> sg.SearchEnv:
    own = {"corpus": CORPUS, "tasks": TASKS, "k": 1, "dialect": "plain"}
    return sg.SearchEnv(**{**own, **keywords})


class Upper(gym.ObservationWrapper):
    def observation(self, observation):
        return observation.upper()


class Hinted(gym.ObservationWrapper):
    """Says something before and after what the environment shows."""

    def observation(self, observation):
        return f"Hear: {observation}The thing is blue.\n"


class Rewriting(gym.ActionWrapper):
    """Turns riddles into queries."""

    def action(self, action):
        return action.replace("the first", "Aldor").replace("the second", "Belu")


class Generous(sg.SearchEnv):
    """Pays five for whatever is done."""

    def step(self, action: str) -> Any:
        text, _, terminated, truncated, info = super().step(action)
        return text, 5.0, terminated, truncated, info


class Closed(gym.Wrapper):
    """Plays closed-book, begins by a search in vain, and ends after two steps."""

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        self.env.reset(seed=seed, options={**(options or {}), "search_enabled": False})
        return self.env.step("search: Aldor")[::4]

    def step(self, action):
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated or self.steps >= 2, info


class Hearing:
    """Answers as it reads; notes what it read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def act(self, requests):
        texts = ["".join(s.text for s in r.segments) for r in requests]
        self.read += texts
        blue = ("IS BLUE", "thing is blue")
        return ["answer: blue" if any(b in t for b in blue) else "search: Aldor" for t in texts]


def test_it_is_said_in_one_line():
    with pytest.warns(UserWarning, match="Upper: acts in step and reset, so .*slower"):
        sg.evaluate(ConstantAgent("x"), Upper(env()))
    with pytest.warns(UserWarning, match=r"Generous\.step: acts in"):
        sg.evaluate(ConstantAgent("x"), Generous(corpus=CORPUS, tasks=TASKS))


@pytest.mark.parametrize("batch", [1, 256])
def test_an_agent_reads_what_an_observation_wrapper_shows(batch: int):
    agent = Hearing()
    result = sg.evaluate(agent, Upper(env()), batch=batch)
    assert all(text == text.upper() for text in agent.read)
    assert [row.em for row in result.rows] == [1.0, 1.0]
    assert [row.turns for row in result.rows] == [2, 2]
    assert result.settings["wrappers"] == [f"{__name__}:Upper"]
    assert f"{__name__}:Upper" in result.settings["sources"]
    asked = Hearing()
    assert sg.evaluate(asked, Hinted(env())).means["turns"].mean == 1
    assert all(t.startswith("Hear: ") and t.endswith("is blue.\n") for t in asked.read)


def test_agents_that_read_segments_find_them():
    kinds = []

    def look(request):
        kinds.append([(s.author, s.kind) for s in request.segments])
        return "search: Aldor"

    sg.evaluate(look, Upper(env(max_turns=2)))
    assert [k for _, k in kinds[-1]] == ["instructions", "question", "action", "results"]
    assert [a for a, _ in kinds[-1]] == ["env", "env", "policy", "env"]
    kinds.clear()
    sg.evaluate(look, Hinted(env(max_turns=2)))
    assert [k for _, k in kinds[0]] == ["question"]


def test_a_chat_is_read_as_a_wrapper_shows_it():
    def polite(chat):
        told = [{**m, "content": f"{m['content']} Please."} for m in chat["messages"]]
        return {"messages": told, "tools": chat["tools"][:0]}

    seen = []

    def look(request):
        seen.append(request)
        return "search: Aldor"

    chats = TransformObservation(env(observation="messages", max_turns=2), polite, None)
    sg.evaluate(look, chats, batch=1)
    assert not any(request.tools for request in seen)
    assert [s.kind for s in seen[1].segments] == ["instructions", "question", "action", "results"]
    assert all(s.text.endswith(" Please.") for request in seen for s in request.segments)


@pytest.mark.parametrize("wrap", [lambda e: FrameStackObservation(e, 2, padding_type="zero"),
                                  lambda e: DelayObservation(e, 1)])  # fmt: skip
def test_stacked_and_delayed_observations_are_read(wrap: Any):
    seen = []

    def look(prompt):
        seen.append(prompt)
        return "search: Aldor"

    sg.evaluate(look, wrap(env(max_turns=3)), tasks=TASKS[:1])
    single = wrap(env(max_turns=3))
    shown = [single.reset(seed=0, options={"task_id": "t0"})[0]]
    shown += [single.step("search: Aldor")[0] for _ in range(2)]
    texts = [o if isinstance(o, str) else "\n\n".join(t for t in o if t) for o in shown]
    assert seen == texts


def test_an_action_wrapper_rewrites_what_the_episode_sees(tmp_path):
    def riddles(request):
        return "answer: blue" if request.turn else "search: the first"

    ended = []
    rewriting = Rewriting(env())
    rewriting.unwrapped.on_end = (ended.append,)
    result = sg.evaluate(riddles, rewriting, out=tmp_path / "a.json")
    assert [row.evidence_recall for row in result.rows] == [1.0, 0.0], "both look for the first"
    assert ended[0].turns[0].text == "search: the first", "the policy's own"
    assert ended[0].contexts.segments[2].text == "search: Aldor"
    assert sg.EvalResult.load(tmp_path / "a.json").rows == result.rows
    assert sg.evaluate(riddles, Rewriting(env()), out=tmp_path / "a.json").rows == result.rows


def test_rewards_are_those_that_wrappers_return():
    ended = []
    for made in (
        Generous(corpus=CORPUS, tasks=TASKS, dialect="plain"),
        TransformReward(Upper(env()), lambda reward: reward + 5),
        NormalizeReward(env()),
    ):
        made.unwrapped.on_end = (ended.append,)
        sg.evaluate(ConstantAgent("x"), made, tasks=TASKS[:1])
    returns = [[turn.reward for turn in episode.turns] for episode in ended]
    assert returns[:2] == [[5.0], [5.0]]
    again = sg.Episode.restore(json.loads(json.dumps(ended[0].snapshot())))
    assert again.turns[0].reward == 5.0, "a record tells them"
    with pytest.raises(RewardError, match="must return a finite number"):
        sg.evaluate(ConstantAgent("x"), Upper(TransformReward(env(), lambda r: float("nan"))))


def test_statistics_are_recorded_where_they_stand():
    inside = RecordEpisodeStatistics(env())
    result = sg.evaluate(FirstHitAgent(), TransformReward(inside, lambda reward: 2 * reward))
    assert list(inside.return_queue) == [row.em for row in result.rows]
    assert inside.episode_count == 2


def test_wrappers_that_act_at_a_reset_or_end_episodes():
    ended = []
    closed = Closed(env(max_turns=9))
    closed.unwrapped.on_end = (ended.append,)
    result = sg.evaluate(sg.RulesAgent(), closed, batch=2)
    assert result.means["searches"].mean == 0
    for episode in ended:
        assert (episode.end, episode.truncated) == ("max_turns", True) or episode.answer
        assert episode.turns[0].text == "", "not the policy's"
        assert len(episode.turns) <= 3


class Swallowing(gym.Wrapper):
    """Keeps every action to itself, for a reward."""

    def step(self, action):
        return "Nothing.", 1.0, False, False, {}


def test_actions_that_never_reach_the_episode_use_its_turns_up():
    ended = []
    swallowing = Swallowing(env(max_turns=3))
    swallowing.unwrapped.on_end = (ended.append,)
    sg.evaluate(ConstantAgent("x"), swallowing, tasks=TASKS[:1])
    assert [(turn.text, turn.reward) for turn in ended[0].turns] == [("answer: x", 3.0)]
    assert ended[0].end == "max_turns"


class Restarting(gym.Wrapper):
    def step(self, action):
        return self.env.reset()[0], 0.0, False, False, {}


def test_what_cannot_be_played_says_why():
    with pytest.raises(EpisodeError, match="Restarting began another episode"):
        sg.evaluate(ConstantAgent("x"), Restarting(env()))
    with pytest.raises(CardError, match="show int, and agents read texts"):
        sg.evaluate(ConstantAgent("x"), TransformObservation(env(), len, None))


def same(observation):
    return observation


def test_an_idle_wrapper_changes_no_result():
    degraded = {"engine": {"name": "degraded"}, "params": {"noise": 0.5}, "max_turns": 4}
    small = {"world": {"entities": 60}, "tasks": {"simple": 6, "chain": 6}, **degraded}
    plain = repr(sg.evaluate(FirstHitAgent(), sg.SearchEnv(**small)).rows)
    wrapped = TransformAction(TransformObservation(sg.SearchEnv(**small), same, None), same, None)
    for workers in (1, 2):
        assert repr(sg.evaluate(FirstHitAgent(), wrapped, workers=workers).rows) == plain


def test_forks_and_copies_go_on_through_the_wrappers():
    stepped = sg.search_env(Rewriting(Upper(env(max_turns=5))), stepped=True)
    stepped = pickle.loads(pickle.dumps(stepped))
    episode = stepped.start(3, task=TASKS[0])
    for text in ("search: the first", "search: the second"):
        episode.act(text)
    asked = [e for e in episode.events if e[0] == "receive"]
    fork = episode.fork(at=1, branch=2)
    assert (fork.config.episode_id, len(fork.turns)) == (f"{episode.config.episode_id}~2", 1)
    assert [e for e in fork.events if e[0] == "receive"] == asked[:1], "tools were not asked again"
    fork.act("search: the second")
    assert fork.requests()[0].segments == episode.requests()[0].segments
    assert "BELU IS BLUE" in fork.requests()[0].segments[-1].text


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_stacks_delays_and_limits_agree_one_by_one_and_in_vectors(vector, mode):
    def make():
        inner = gym.make("SearchQA-v0", max_episode_steps=2, corpus=CORPUS, tasks=TASKS, k=1)
        return FrameStackObservation(DelayObservation(inner, 1), 2)

    texts = ["<search> Aldor </search>", "<search> Belu </search>"]
    single = make()
    shown = [single.reset(seed=4)[0], *(single.step(text)[0] for text in texts)]
    envs = vector([make] * 2, autoreset_mode=mode)
    many = [[*zip(*envs.reset(seed=[4, 4])[0], strict=True)]]  # frames come first in vectors
    for text in texts:
        observations, _, _, cuts, infos = envs.step([text] * 2)
        many.append([*zip(*observations, strict=True)])
    assert cuts.all()
    if mode is gym.vector.AutoresetMode.SAME_STEP:
        many[-1] = list(infos["final_obs"])
    assert many == [[frames, frames] for frames in shown]
    envs.close()
