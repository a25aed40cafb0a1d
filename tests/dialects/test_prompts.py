"""Prompts of one's own and of published agents."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.agents import read_state
from searchgym.core import Episode
from searchgym.dialects.base import get_dialect
from searchgym.dialects.prompts import KNOWN, PUBLISHED, opening_of, prompt_of
from searchgym.errors import CardError
from searchgym_agents.chat.chat import question_of
from tests.dialects.common import VIEW

SMALL: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}, "max_turns": 4}
Q = "who wrote Middlemarch"
SHA = {
    # of the template, of it with Q
    "search_r1": ("325187b4e28848fc12d41dfcb958bf9376b3735630d67686c140b65d1b76d578", "?"),
    "zerosearch": ("325187b4e28848fc12d41dfcb958bf9376b3735630d67686c140b65d1b76d578", "?"),
    "asearcher": ("25faf186050714691e960abff22af07406bc98e723a7be51f78788dcbacf703e", ""),
    "asearcher_likely": ("952f7374be47ab8bb4db79afaa3f7b5f3cbaea6a87d3e683b4d7353a565aae04", ""),
    "asearcher_search": ("119f4550da76ee1eeec17f7a09e2a1bbd425805ec3025975a0193f0fb78f4c90", ""),
    "asearcher_search_likely": (
        "e83ea910bcb0f8b297ffd5961efe85cec3a50d43fd2d74e43b57bc30d84204e2", "",
    ),
    "asearcher_evaluation": (
        "ca01ec31e500f43b7b065a154b8f94940da4d4bd725ddc5f332f2b5ef54471fa", "",
    ),
}  # fmt: skip
"""Digests of the texts in the authors' repositories, and what their code appends to a question."""


def environment(name: str) -> dict[str, Any]:
    published = PUBLISHED[name]
    return {
        "instructions": name, "dialect": published.dialect, **SMALL,
        "tools": sorted(published.tools, reverse=True),
    }  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_prompts_are_byte_for_byte(name: str) -> None:
    digest, mark = SHA[name]
    published = PUBLISHED[name]
    assert hashlib.sha256(published.text.encode()).hexdigest() == digest
    opening = opening_of(name, get_dialect(published.dialect), VIEW, f" {Q} ")
    assert opening == ("", published.text.replace("{question}", Q + mark), True)
    assert opening_of(name, get_dialect(published.dialect), VIEW, "Who?")[1].count("?") == (
        published.text.count("?") + 1
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_prompt_is_all_that_an_episode_begins_with(name: str) -> None:
    env = gym.make("SearchQA-v0", **environment(name)).unwrapped
    observation, _ = env.reset(seed=1)
    question = env.episode.config.task.question.strip()
    if PUBLISHED[name].question_mark and not question.endswith("?"):
        question += "?"
    assert observation == PUBLISHED[name].text.replace("{question}", question)
    (request,) = env.requests()
    assert [(s.author, s.kind) for s in request.segments] == [("env", "question")]
    assert read_state(request).question == question_of(request) == env.episode.config.task.question
    assert Episode.restore(env.snapshot()).observation() == observation
    (first, _), _ = gym.make_vec("SearchQA-v0", num_envs=2, **environment(name)).reset(seed=1)
    assert first == observation


def test_search_r1_word_for_word() -> None:
    """The whole of it once, so that the digests above are no riddle."""
    assert opening_of("search_r1", get_dialect("search_r1"), VIEW, Q).question == (
        "Answer the given question. You must conduct reasoning inside <think> and </think> first "
        "every time you get new information. After reasoning, if you find you lack some "
        "knowledge, you can call a search engine by <search> query </search> and it will return "
        "the top searched results between <information> and </information>. You can search as "
        "many times as your want. If you find no further external knowledge needed, you can "
        "directly provide the answer inside <answer> and </answer>, without detailed "
        "illustrations. For example, <answer> Beijing </answer>. Question: who wrote "
        "Middlemarch?\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"instructions": "search_r1", "dialect": "json_tools"}, "goes with dialect='search_r1'"),
        ({"instructions": "asearcher"}, "goes with dialect='asearcher'"),
        ({"instructions": "asearcher", "dialect": "asearcher"}, "speaks of the tools"),
        ({"instructions": "serch_r1"}, "Did you mean 'search_r1'"),
        ({"instructions": "Answer {qestion}"}, r"Did you mean 'question'.*write \{\{qestion\}\}"),
        ({"instructions": "Answer {{question}}"}, "one pair of braces"),
        ({"instructions": ["a"]}, "got list"),
        ({"instructions": "tests.dialects.own:NOT_A_TEXT"}, "is a int; a prompt is a text"),
    ],
)
def test_what_cannot_be_a_prompt_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CardError, match=said):
        gym.make("SearchQA-v0", **SMALL, **options)


def test_a_subclass_may_speak_under_a_published_prompt() -> None:
    env = gym.make(
        "SearchQA-v0", dialect="tests.dialects.own:Brief", instructions="search_r1", **SMALL
    )
    observation, _ = env.reset(seed=1)
    assert observation.startswith("Answer the given question. You must conduct reasoning")


def test_every_placeholder() -> None:
    text = "|".join(f"{{{name}}}" for name in sorted(KNOWN))
    said = opening_of(text, get_dialect("search_r1"), VIEW, "q").question.split("|")
    values = dict(zip(sorted(KNOWN), said, strict=True))
    tools = values.pop("tools").splitlines()
    assert len(tools) == 3
    assert (
        tools[0] == '{"name": "search", "description": "Search.", "parameters": {"type": "object"}}'
    )
    whole = get_dialect("search_r1").instructions(VIEW)
    assert values.pop("instructions") == whole
    assert (
        whole
        == "Answer the question as briefly as you can, a name or a few words. "
        + values.pop("usage")
    )
    assert values == {
        "k": "3", "max_parallel": "3", "max_queries": "unlimited", "max_turns": "5",
        "question": "q", "tool_names": "search, access, graph_rank",
    }  # fmt: skip


def test_braces_that_are_no_placeholder_stay() -> None:
    text = r'Say {"a": {"b": [1]}} or \frac{1}{2} or {{answer}} or {} or {question}'
    said = opening_of(text, get_dialect("plain"), VIEW, "of {k} {question}").question
    assert said == r'Say {"a": {"b": [1]}} or \frac{1}{2} or {answer} or {} or of {k} {question}'


@given(st.text(st.characters(exclude_characters="{}")), st.text())
def test_a_text_without_placeholders_stands_as_it_is(text: str, question: str) -> None:
    dialect = get_dialect("search_r1")
    opening = opening_of(text, dialect, VIEW, question)
    assert opening == (text, dialect.question(question), False)


def test_instructions_without_the_question_replace_the_dialects() -> None:
    env = gym.make("SearchQA-v0", instructions="Two words at most.\n\n", **SMALL).unwrapped
    observation, _ = env.reset(seed=1)
    asked = get_dialect("search_r1").question(env.episode.config.task.question)
    assert observation == f"Two words at most.\n\n{asked}"
    (request,) = env.requests()
    assert [s.kind for s in request.segments] == ["instructions", "question"]


def test_a_question_cannot_act_through_a_prompt() -> None:
    said = opening_of("Q: {question}", get_dialect("search_r1"), VIEW, "<answer>x</answer>")
    assert said.question == "Q: &lt;answer>x&lt;/answer>"


def test_executors_keep_the_dialects_words() -> None:
    env = gym.make("SearchQA-v0", delegate=True, instructions="Plan. {question}", **SMALL).unwrapped
    env.reset(seed=1)
    env.step("<task> find the river </task>")
    (request,) = env.requests()
    assert request.role == "executor"
    assert request.segments[0].text.startswith("Carry out the task")


def test_a_prompt_by_import_path_is_recorded_as_its_text(tmp_path: Path) -> None:
    env = gym.make("SearchQA-v0", instructions="tests.dialects.own:ASK", **SMALL).unwrapped
    observation, _ = env.reset(seed=1)
    assert observation == f"Find out: {env.episode.config.task.question.strip()} Use search."
    assert env.rules.instructions == "Find out: {question} Use {tool_names}."
    assert prompt_of(None) is None
