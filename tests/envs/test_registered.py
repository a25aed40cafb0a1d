"""Every registered environment keeps every promise; the list comes from the registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import searchgym
from searchgym.cards import card, cards
from searchgym.corpora import status
from searchgym.envs.checker import check_env, check_vector_env
from searchgym.envs.registration import env_ids, versions_of
from searchgym.errors import DataError

pytestmark = pytest.mark.contract


def searches_all(env_id: str) -> bool:
    """Sets without passages of their own: one after the other, they share the union of all."""
    return card("corpora", gym.spec(env_id).kwargs["corpus"]).body.get("data") == {"corpus": []}


NEWER = {v for item in cards("envs").values() for v in versions_of(item)}
OLDER = {v.replace("-v1", "-v0") for v in NEWER} - {"SearchQA-v0", "searchgym/DerivedQA-v0"}
"""Older versions differ by their world alone; two of them stand for the others."""
IDS = sorted(set(env_ids()) - OLDER, key=lambda env_id: (searches_all(env_id), env_id))
assert len(IDS) > 10, "the catalogue is empty; nothing would be tested"


def build(env_id: str, **keywords) -> gym.Env:
    try:
        return gym.make(env_id, **keywords)
    except DataError as error:
        corpus = gym.spec(env_id).kwargs.get("corpus")
        if any(s.id == corpus and not s.present for s in status(verify=False)):
            pytest.skip(f"real data is not on this machine: {error}")
        raise


@pytest.mark.filterwarnings(
    "error", "ignore:.*is out of date", "ignore::searchgym.tasks.build.FewerTasks"
)
@pytest.mark.parametrize("env_id", IDS)
def test_check_env(env_id):
    check_env(build(env_id).unwrapped, seeds=3)


@pytest.mark.parametrize("env_id", ["SearchQA-v0", "searchgym/LongSearchQA-v0"])
def test_vector_equals_single(env_id):
    check_vector_env(env_id)


def test_ways_to_name_the_default_environment():
    names = ("SearchQA-v0", "searchgym/SearchQA-v0", "searchgym:SearchQA-v0",
             "searchgym:searchgym/SearchQA-v0")  # fmt: skip
    texts = {gym.make(name).reset(seed=3)[0] for name in names}
    assert len(texts) == 1


@pytest.mark.parametrize("env_id", IDS)
def test_specs_survive_json(env_id):
    spec = gym.spec(env_id)
    again = EnvSpec.from_json(spec.to_json())
    assert again.kwargs == spec.kwargs
    assert again.id == spec.id


def test_keywords_override_the_card_and_survive_in_the_spec():
    env = gym.make("SearchQA-v0", engine="graph", max_turns=3, world={"entities": 2_000}, k=2)
    assert env.unwrapped.rules.max_turns == 3
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=1)[0] == env.reset(seed=1)[0]


PROGRAM = """
import json, sys
import gymnasium as gym, searchgym
out = []
for env_id in ("SearchQA-v0", "searchgym/LongSearchQA-v0"):
    env = gym.make(env_id, world={"entities": 1_000})
    for seed in range(6):
        out.append(env.reset(seed=seed))
        for action in [*env.unwrapped.oracle()[:-1], "nonsense", "<answer>x</answer>"]:
            out.append(env.step(action))
            if out[-1][2] or out[-1][3]:
                break
vector = gym.make_vec("SearchQA-v0", num_envs=3, world={"entities": 1_000})
observations, infos = vector.reset(seed=9)
out.append([observations, {k: v.tolist() for k, v in infos.items()}])
sys.stdout.write(json.dumps(out, default=str))
"""


def test_two_processes_agree_whatever_their_hash_seed():
    outputs = []
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
        )
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout)
    assert json.loads(outputs[0])
    assert outputs[0] == outputs[1]


def test_nothing_of_the_gold_is_seen_before_it_is_retrieved():
    """Over 150 episodes: evidence ids and answers appear only in what a search returned."""
    env = gym.make("SearchQA-v0").unwrapped
    walked = 0
    for seed in range(150):
        _, info = env.reset(seed=seed)
        task = env.episode.config.task
        retrieved: set[str] = set()
        for action in env.oracle():
            text = json.dumps({k: v for k, v in info.items() if k != "outcome"})
            hidden = [e for e in task.evidence if e not in retrieved]
            assert not any(e in text for e in hidden)
            assert "answers" not in info
            _, _, _, _, info = env.step(action)
            retrieved.update(info.get("hits", ()))
            walked += 1
    assert walked > 300


def test_splits_are_separate_worlds():
    worlds = {}
    for split in ("train", "dev", "test"):
        shared = gym.make("SearchQA-v0", split=split).unwrapped
        worlds[split] = (set(shared.world.titles), {t.question for t in shared.tasks})
        assert all(t.split == split for t in shared.tasks)
    for a, b in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert len(worlds[a][0] & worlds[b][0]) < 0.01 * len(worlds[a][0])
        assert not worlds[a][1] & worlds[b][1]


def test_the_public_names_all_load():
    for name in searchgym.__all__:
        assert getattr(searchgym, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        searchgym.nothing  # noqa: B018


def test_every_gold_query_finds_its_passage():
    shared = gym.make("SearchQA-v0").unwrapped
    pairs = [(q, e) for t in shared.tasks for q, e in zip(t.queries, t.evidence, strict=True)]
    rankings = shared.engine.search([q for q, _ in pairs], 3)
    assert len(pairs) > 1_000
    for (query, evidence), ranking in zip(pairs, rankings, strict=True):
        assert evidence in {hit.passage.id for hit in ranking}, query
