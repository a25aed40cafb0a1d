"""What is wrong in an environment of one's own is refused where it is made or called, by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import TransformReward

import searchgym as sg
from searchgym.curricula import Uniform
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, EngineError, RewardError, TaskError
from searchgym.tools import Tool
from searchgym.types import Task, ToolSpec
from tests.small import CORPUS, TASKS


def small(**options: Any) -> SearchEnv:
    return SearchEnv(**{"corpus": CORPUS, "tasks": TASKS, "max_turns": 3, **options})


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Task(TASKS[0].id, "Who else?", ("Ann",)), "the same id as number 0"),
        (Task("b", "Who?", "Paris"), r"at least one text, e.g. \('Paris',\), got 'Paris'"),  # type: ignore[arg-type]
        (Task("b", "Who?", (1963,)), "got .1963,"),  # type: ignore[arg-type]
        (Task("b", "Who?", ()), "at least one text"),
        (Task("b", " ", ("Paris",)), "its question is empty"),
        (Task("", "Who?", ("Paris",)), "its id must be a text"),
        (Task("b", "Who?", ("Bo; Cy",), items=("Bo", "Cy")), "'items' must be a list of lists of"),  # type: ignore[arg-type]
        (
            Task("b", "Who?", ("Bo; Cy",), items=(("Bo",), ())),
            r"forms, e.g. \(\('Paris',\), \('Rome",
        ),
        (Task("b", "Who?", ("Bo; Cy",), items="Bo"), "of accepted forms, .* got 'Bo'"),  # type: ignore[arg-type]
    ],
)
def test_a_task_that_cannot_be_asked_or_scored(task: Task, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        small(tasks=[*TASKS, task])


def test_items_are_lists_of_accepted_forms() -> None:
    whole = Task("b", "Who are they?", ("Bo; Cy",), items=(("Bo", "Bob"), ("Cy",)))
    assert small(tasks=[whole]).task("b").items == whole.items


def test_a_list_that_holds_something_else_says_what() -> None:
    with pytest.raises(CardError, match="a list that holds a str: 'Who is it"):
        small(tasks=[TASKS[0], "Who is it?"])


def test_counts_of_a_card_are_no_questions_of_ones_own() -> None:
    said = r"no simple, .* questions: they need a generated world.*tasks=\{'fact': 100"
    with pytest.raises(CardError, match=said):
        gym.make("SearchQA-v0", corpus=CORPUS)


def test_a_path_object_is_told_how_to_be_written(tmp_path: Path) -> None:
    with pytest.raises(CardError, match=r"corpus is a text, .*write corpus='./notes'"):
        small(corpus=Path("notes"))
    with pytest.raises(CardError, match=f"write corpus='{tmp_path}'"):
        small(corpus=tmp_path)


@pytest.mark.parametrize("value", ["no", 0, None])
def test_search_is_enabled_or_not(value: Any) -> None:
    with pytest.raises(CardError, match="search_enabled must be true or false, got"):
        small(search_enabled=value)
    if value is not None:  # which says: as the environment
        with pytest.raises(CardError, match="search_enabled must be true or false, got"):
            small().reset(seed=0, options={"search_enabled": value})


class Answers:
    def act(self, requests: Any) -> list[str]:
        return ["<answer>x</answer>" for _ in requests]


@pytest.mark.parametrize("given", [math.nan, "x", None])
def test_a_reward_wrapper_gives_a_number(given: Any) -> None:
    wrapped = TransformReward(small(), lambda reward: given)
    with pytest.raises(RewardError, match="must give a finite number, and gave"):
        sg.evaluate(Answers(), wrapped)


def kaputt(word: str) -> str:
    """Raise."""
    raise ValueError(f"no {word} here")


class Unfinished(Tool):
    spec = ToolSpec("kaputt", "Does nothing.", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (kaputt, '{"word": "tea"}', "failed on {'word': 'tea'}: ValueError: no tea here"),
        (Unfinished, "{}", r"NotImplementedError: Unfinished has no use\(args, state\)"),
    ],
)
def test_a_tool_that_raises_is_named(tool: Any, arguments: str, said: str) -> None:
    env = small(tools=["search", tool], dialect="json_tools")
    env.reset(seed=0)
    with pytest.raises(EngineError, match=f"the tool 'kaputt' .*{said}"):
        env.step(f'<tool_call>{{"name": "kaputt", "arguments": {arguments}}}</tool_call>')


class Wrong(Uniform):
    """A curriculum whose answers are given."""

    def __init__(self, chosen: Any = 0, params: Any = None) -> None:
        self.chosen, self.given = chosen, {} if params is None else params

    def choose(self, tasks: Any, key: int) -> Any:
        return self.chosen

    def params(self, task: Any = None) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("curriculum", "said"),
    [
        (Wrong("a"), "Wrong.choose gave 'a': expected the place of one of"),
        (Wrong(99), "Wrong.choose gave 99"),
        (Wrong(params=[1]), r"Wrong.params gave \[1\]: expected difficulty by name"),
    ],
)
def test_a_curriculum_that_answers_wrongly(curriculum: Any, said: str) -> None:
    with pytest.raises(CardError, match=said):
        small(curriculum=curriculum).reset(seed=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"world": {"entitis": 60}}, "option of world 'entitis'. Did you mean 'entities'"),
        ({"world": {"foo": 1}}, "option of world 'foo'. Known: .*tasks, twin, "),
        (
            {"wording": {"phrsing": "heldout"}},
            "option of wording 'phrsing'. Did you mean 'phrasing'. "
            "Known: distractors, paraphrases, phrasing, seed$",
        ),
        (
            {"engine": {"name": "bm25", "stemer": "x"}},
            "unknown option 'stemer'. Did you mean 'stemmer'",
        ),
    ],
)
def test_a_misspelt_option_of_a_world_or_an_engine(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sg.errors.SearchGymError, match=said):
        SearchEnv(**{"world": {"entities": 60}, "tasks": {"simple": 2}, **options})


@pytest.mark.parametrize(
    ("name", "value"), [("world", {"seed": 1}), ("wording", {"seed": 1}), ("split", "foo")]
)
def test_an_own_corpus_is_not_generated(name: str, value: Any) -> None:
    with pytest.raises(CardError, match=f"a corpus of your own takes no {name}="):
        small(**{name: value})


def test_a_split_that_a_card_brings_is_not_refused() -> None:
    assert len(gym.make("NQ-v0", corpus=CORPUS, tasks=TASKS).unwrapped.tasks) == len(TASKS)


@pytest.mark.parametrize("families", [["simpel"], ["simple", "simpel"]])
def test_a_family_that_no_task_has_is_told(families: list[str]) -> None:
    said = "unknown task family 'simpel'. Did you mean 'simple'. Known: "
    with pytest.raises(CardError, match=f"{said}simple$"):
        gym.make("SearchQA-v0", world={"entities": 60}, tasks={"simple": 2}, families=families)
    with pytest.raises(CardError, match=f"{said}chain, simple$"):
        small(families=families)


def test_families_that_leave_no_task_are_told() -> None:
    with pytest.raises(CardError, match=r"no task is left .* families \[\]"):
        small(families=[])
