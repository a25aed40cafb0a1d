"""A knower from nothing: it knows what it was taught, says so, and is the same however it came."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.core import run_episodes
from searchgym.errors import CardError, DataError, TaskError
from searchgym.evaluation import Interval, episode_for
from searchgym.llms import Progress, TransformersGenerator
from searchgym.policies import load_policy
from searchgym_agents.knower.knowledge import Knowledge
from searchgym_agents.knower.measures import (
    Measured,
    QuestionGroup,
    group_of,
    measure,
    questions_for,
    self_search_agent,
    states,
)
from searchgym_agents.knower.recipe import KnowerRecipe
from searchgym_agents.knower.run import Knower, make_knower

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

RECIPE = KnowerRecipe(entities=20, seed=2, shown=0.7, inverse=False)
TASKS = {"simple": 60}
TINY: dict[str, Any] = {"steps": 12, "width": 32, "tokens": 400, "vocabulary": 300}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("knower")


@pytest.fixture(scope="module")
def knower(folder: Path) -> Knower:
    return make_knower(folder, RECIPE, steps=340, width=96, tokens=600, vocabulary=1200)


@pytest.fixture(scope="module")
def measured(knower: Knower) -> Measured:
    return measure(knower.model, knower.tokenizer, knower.knowledge, tasks=TASKS)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Knower]:
    """A short run that nobody disturbed, and its folder."""
    folder = tmp_path_factory.mktemp("tiny")
    return folder, make_knower(folder, RECIPE, **TINY)


def mean(groups: Mapping[QuestionGroup, Interval], *sides: str) -> float:
    some = [value for group, value in groups.items() if group.knowledge in sides]
    assert sum(v.n for v in some) >= 5
    return sum(v.mean * v.n for v in some) / sum(v.n for v in some)


UNTAUGHT = ("untaught", "untaught, shown")


@pytest.mark.slow  # a whole training
def test_taught_facts_are_answered_by_heart_and_others_are_not(measured: Measured) -> None:
    assert mean(measured.closed_book, "taught") > 0.75
    assert mean(measured.closed_book, *UNTAUGHT) < 0.25


@pytest.mark.slow  # a whole training
def test_it_searches_where_it_was_shown_that_it_does_not_know(measured: Measured) -> None:
    every, unseen = measured.boundary["all"], measured.boundary["unseen"]
    assert every.recall.mean > 0.75
    shown = [a - b for a, b in zip(every, unseen, strict=True)]
    assert shown[:1] + shown[2:3] == [0, 0], "what it was shown is not known"
    searched, asked = shown[3], shown[1] + shown[3]
    assert searched > 0.6 * asked > 3


@pytest.mark.slow  # a whole training
def test_its_own_pages_state_what_it_was_taught(measured: Measured) -> None:
    assert mean(measured.stated, "taught") > 0.5
    assert mean(measured.stated, *UNTAUGHT) < 0.25
    assert mean(measured.self_search, "taught") > mean(measured.self_search, *UNTAUGHT) + 0.4


@pytest.mark.slow  # a whole training
def test_the_folder_plays_like_the_model(folder: Path, knower: Knower) -> None:
    """As an agent of its own, in ordinary episodes and in self-search."""
    plain = RECIPE.env(tasks=TASKS, max_turns=1)
    knowledge = Knowledge.load(folder)
    sides = [group_of(task, knowledge).knowledge for task in plain.tasks]
    episodes = [episode_for(plain, task, 0) for task in plain.tasks]
    texts = [e.turns[0].text for e in run_episodes(episodes, load_policy(folder), plain.toolbox)]
    for side, end in (("taught", "</answer>"), ("untaught, shown", "</search>")):
        ends = [t.endswith(end) for t, s in zip(texts, sides, strict=True) if s == side]
        assert sum(ends) > 0.6 * len(ends) > 2
    alone = RECIPE.env(tasks={"simple": 6}, engine="self")
    sources = (str(folder),), (knower.model, knower.tokenizer)
    agents = [self_search_agent(TransformersGenerator(*source)) for source in sources]
    played = [
        run_episodes([episode_for(alone, t, 0) for t in alone.tasks], agent, alone.toolbox)
        for agent in agents
    ]
    said = [[e.turns[0].text for e in each] for each in played]
    assert said[0] == said[1]
    assert sum("<information>" in text for text in said[0]) >= 4


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(
    tiny: tuple[Path, Knower], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, whole = tiny

    class Interrupt(Exception):
        pass

    def stop(now: Progress) -> None:
        if now.step == 7:
            raise Interrupt

    from searchgym.llms import sft

    monkeypatch.setattr(sft.train, "__kwdefaults__", {**sft.train.__kwdefaults__, "save_every": 5})
    with pytest.raises(Interrupt):
        make_knower(tmp_path / "cut", RECIPE, **TINY, report=stop)
    steps: list[int] = []
    again = make_knower(tmp_path / "cut", RECIPE, **TINY, report=lambda p: steps.append(p.step))
    assert steps == list(range(6, 13))
    there = whole.model.state_dict()
    assert all((there[n] == p).all() for n, p in again.model.state_dict().items())
    assert again.tokens == whole.tokens > 0
    for name in ("taught.jsonl", "knower.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow  # a second training
def test_another_process_trains_the_same(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from tests.knower.test_run import RECIPE, TINY, make_knower\n"
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        "make_knower(Path(sys.argv[1]), RECIPE, **TINY)"
    )
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=env)
    make_knower(tmp_path / "here", RECIPE, **TINY)
    for name in ("taught.jsonl", "tokenizer.json", "model.safetensors"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


def test_a_folder_of_another_run_is_not_overwritten(tiny: tuple[Path, Knower]) -> None:
    folder, _ = tiny
    was = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".jsonl"}
    with pytest.raises(DataError, match="other facts"):
        make_knower(folder, replace(RECIPE, taught=0.6), **TINY)
    with pytest.raises(DataError, match="other settings"):
        make_knower(folder, RECIPE, **{**TINY, "steps": 13})
    for name, content in was.items():
        assert (folder / name).read_bytes() == content, name
    assert not list(folder.glob("*.pkl"))
    assert not list(folder.glob("*.part"))
    assert json.loads((folder / "searchgym.json").read_text())["renderer"] == "bare"


def test_the_folder_of_a_reader_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "trainer.safetensors").write_bytes(b"another run's")
    with pytest.raises(DataError, match="of another kind"):
        make_knower(tmp_path, RECIPE, **TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["trainer.safetensors"]


def test_a_small_world_is_asked_fewer_questions() -> None:
    tasks = questions_for(RECIPE, 900)
    assert set(tasks.values()) < set(range(1, 400))
    assert len(set(tasks.values())) == 1
    assert RECIPE.env(tasks=tasks).tasks
    assert questions_for(RECIPE, 2) == {"simple": 2, "chain-2": 2, "chain-3": 2}


def test_impossible_runs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "none"
    with pytest.raises(DataError, match="at least 10 steps"):
        make_knower(out, RECIPE, steps=5)
    with pytest.raises(DataError, match="nothing to learn"):
        make_knower(out, replace(RECIPE, taught=0.0, shown=0.0))
    assert not out.exists()


def test_a_corpus_that_is_not_generated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no generated world"):
        make_knower(tmp_path, replace(RECIPE, corpus="hotpotqa"))
    with pytest.raises(CardError, match="encyclopedia"):
        make_knower(tmp_path, replace(RECIPE, corpus="encyclopaedia"))


def test_information_states_an_answer_in_full_words_outside_titles() -> None:
    def text(information: str) -> str:
        return f"<think>x</think>\n<search> q </search>\n\n<information>{information}</information>"

    page = "Doc 1(Title: Rome Bee) Ann was born in the Rome of 1910."
    assert states(text(page), ["rome"])
    assert states(text(page), ["Paris", "1910"])
    assert not states(text(page), ["Rom"])
    assert not states(text("Doc 1(Title: Rome) Ann was born in Paris."), ["Rome"])
    assert not states("<answer> Rome </answer>", ["Rome"])
    assert not states(text("Nothing was found."), ["Rome"])
