"""Worked examples are real episodes, and say only what was shown."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import DialectError, TaskError
from searchgym.evaluation import episode_for
from searchgym.types import ABSTAIN
from searchgym_agents.experts.hops import hops_of, start_of
from searchgym_agents.experts.thinking_oracle import ThinkingOracle, findings
from searchgym_agents.reader.traces import DEFAULTS, Trace, traces_of

THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def thought(text: str) -> str:
    found = THOUGHT.match(text)
    assert found, text
    return found[1]


def test_most_questions_become_traces_of_every_length(
    world: SearchEnv, traces: list[Trace]
) -> None:
    assert len(traces) >= 0.85 * len(world.tasks)
    for hops in (1, 2, 3):
        asked = sum(task.hops == hops for task in world.tasks)
        assert sum(trace.hops == hops for trace in traces) >= 0.7 * asked > 10


def test_replayed_through_the_environment_they_score_one(
    world: SearchEnv, traces: list[Trace]
) -> None:
    env = SearchEnv(**world.keywords)
    for trace in traces:
        observation, _ = env.reset(options={"task_id": trace.task_id})
        reward, terminated = 0.0, False
        for piece in trace.pieces:
            if piece.own:
                assert not terminated
                observation, reward, terminated, _, _ = env.step(piece.text)
        assert (reward, terminated) == (1.0, True)
        assert observation.endswith("".join(piece.text for piece in trace.pieces))


def test_findings_are_what_was_shown(traces: list[Trace]) -> None:
    found = 0
    for trace in traces:
        shown, said, first = "", "", True
        for piece in trace.pieces:
            if not piece.own:
                shown += piece.text
                continue
            if not first and piece.text.startswith("<think>"):
                for part in thought(piece.text).split("; "):
                    label, _, name = part.partition(": ")
                    assert label[:2] in ("+ ", "- "), part
                    if label[0] == "+":
                        assert label[2:].islower()
                    else:  # repeats what it begins from, as searched for or found before
                        assert label.split()[-1] in said
                    assert name
                    assert name in shown
                    said += name
                    found += 1
            said += piece.text
            first = False
        assert found
    assert found >= sum(trace.hops for trace in traces)


def test_the_plan_names_every_hop_in_order(world: SearchEnv, traces: list[Trace]) -> None:
    assert world.world is not None
    by_id = {task.id: task for task in world.tasks}
    for trace in traces:
        own = [piece.text for piece in trace.pieces if piece.own]
        hops = hops_of(by_id[trace.task_id], world.world, world.corpus)  # type: ignore[arg-type]
        assert thought(own[0]) == " ".join(hop.label for hop in hops)
        stated = " ".join(thought(text) for text in own[1:] if text.startswith("<think>"))
        known = [start_of(by_id[trace.task_id]), *(hop.found for hop in hops[:-1])]
        places = [stated.index(findings([h], [k])) for h, k in zip(hops, known, strict=True)]
        assert places == sorted(places)


def test_pages_are_opened_before_they_are_read(world: SearchEnv, traces: list[Trace]) -> None:
    opens = "access" in world.toolbox.tools
    for trace in traces:
        texts = [piece.text for piece in trace.pieces]
        assert any(text.startswith("<access>") for text in texts) == opens
        for before, text in pairwise(texts):
            if opens and THOUGHT.match(text) and ": " in thought(text):
                assert "<information>Page(Title:" in before


def test_the_oracle_believes_only_what_it_is_shown() -> None:
    """Snippets too short to state anything: every episode ends in a refusal, no trace is made."""
    blind = SearchEnv(
        **{**DEFAULTS, "world": {"entities": 300, "seed": 11}, "tasks": {"simple": 20},
         "snippet_chars": 4}
    )  # fmt: skip
    episodes = [episode_for(blind, task, 0) for task in blind.tasks]
    for episode in run_episodes(episodes, ThinkingOracle(blind), blind.toolbox):
        outcome = episode.outcome()
        assert outcome is not None
        assert outcome.answer == ABSTAIN
        assert episode.queries == 1
    assert list(traces_of(blind)) == []


def test_names_of_the_unseen_world_were_never_seen() -> None:
    """Titles and names of people, which are of several parts, hardly ever come back."""
    seen: set[str] = set()
    for seed in range(4):
        made = SearchEnv(
            **{**DEFAULTS, "world": {"entities": 300, "seed": seed}, "tasks": {"simple": 1}}
        )
        seen.update(passage.title for passage in made.corpus)
    other = SearchEnv(**{**DEFAULTS, "split": "dev", "world": {"entities": 300, "seed": 0}})
    unseen = {passage.title for passage in other.corpus}
    assert len(unseen & seen) <= 0.03 * len(unseen)


def test_it_refuses_what_it_cannot_explain(world: SearchEnv) -> None:
    counted = SearchEnv(
        **{**DEFAULTS, "world": {"entities": 300, "seed": 11}, "tasks": {"count": 5}}
    )
    with pytest.raises(TaskError, match="simple and chain"):
        ThinkingOracle(counted)
    with pytest.raises(DialectError, match="tag dialects"):
        ThinkingOracle(SearchEnv(**{**world.keywords, "dialect": "json_tools"}))
    with pytest.raises(TaskError, match="generated world"):
        ThinkingOracle(SearchEnv(**{"corpus": list_corpus(), "tasks": list(world.tasks[:1])}))


def list_corpus() -> object:
    from searchgym.corpora import Corpus
    from searchgym.types import Passage

    return Corpus("own", [Passage("a", "A", "A is a letter.", "https://example.org/a")])
