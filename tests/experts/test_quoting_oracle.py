"""The quoting oracle: what it says stands on the pages, and it searches as often as it must."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import pytest

from searchgym.core import Episode, run_episodes
from searchgym.corpora import Corpus
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.evaluation import episode_for
from searchgym.types import Hit, Passage, Segment
from searchgym_agents.experts import QuotingOracle
from searchgym_agents.experts.quoting_oracle import Stated, readable, sentence_around
from tests.experts.world import KEYWORDS


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    tasks = {"simple": 20, "chain-2": 30, "chain-3": 25, "comparison": 20, "intersection": 10}
    return SearchEnv(**{**KEYWORDS, "tasks": {**tasks, "at_most": True}})


@pytest.fixture(scope="module")
def episodes(env: SearchEnv) -> list[Episode]:
    made = [episode_for(env, task, 0) for task in env.tasks]
    return run_episodes(made, QuotingOracle(env), env.toolbox)


def kind(episode: Episode) -> str:
    task = episode.config.task
    return f"chain-{task.hops}" if task.family == "chain" else task.family


def test_it_solves_nearly_all_and_searches_more_for_more_hops(episodes: list[Episode]) -> None:
    right, searches = defaultdict(list), defaultdict(list)
    for episode in episodes:
        outcome = episode.outcome()
        assert outcome is not None
        right[kind(episode)].append(outcome.parts["em"])
        searches[kind(episode)].append(sum(len(t.calls) for t in episode.turns))
    assert set(right) == {"simple", "chain-2", "chain-3", "comparison", "intersection"}
    assert all(mean(values) >= 0.8 for values in right.values()), right
    assert mean(right["simple"]) == 1.0
    assert mean(searches["simple"]) < 1.3
    assert mean(searches["simple"]) + 0.5 < mean(searches["chain-2"])
    assert mean(searches["chain-2"]) + 0.2 < mean(searches["chain-3"])


def test_every_quote_was_shown_and_every_answer_follows(episodes: list[Episode]) -> None:
    quotes = 0
    for episode in episodes:
        shown = ""
        segments = episode.contexts.visible(0)
        for segment in segments:
            for hit in segment.hits:
                shown += f"{hit.passage.title}: {hit.passage.text}\n"
            if segment.author != "policy" or "<think>" not in segment.text:
                continue
            thought = segment.text.partition("<think>")[2].partition("</think>")[0]
            assert thought
            quotes += 1
            titles = {hit.passage.title for s in segments for hit in s.hits}
            assert any(thought.startswith(f"{title}: ") for title in titles)
            for title in titles:
                thought = thought.replace(f"{title}: ", "\n")
            for quote in filter(None, map(str.strip, thought.split("\n"))):
                assert quote in shown
        first = next(s for s in segments if s.author == "policy")
        question = episode.config.task.question
        assert first.text.startswith(f"<search> {question[:20]}")
    assert quotes > 80


def test_a_sentence_around_a_span() -> None:
    text = 'Ann is a cook. She was born in Bay. "Soup" is hers.'
    at = text.index("Bay")
    assert text[slice(*sentence_around(text, at, at + 3))] == "She was born in Bay."
    assert text[slice(*sentence_around(text, 0, 3))] == "Ann is a cook."
    assert text[slice(*sentence_around(text, 7, at + 3))] == "Ann is a cook. She was born in Bay."
    assert sentence_around("no end", 3, 6) == (0, 6)


def results(*shown: tuple[str, str]) -> list[Segment]:
    hits = tuple(Hit(Passage(id_, id_, text, id_), 1.0) for id_, text in shown)
    return [Segment("s", 0, "env", "results", ("",), hits=hits)]


def test_a_fact_is_read_once_it_tells_of_something_known() -> None:
    first = Stated("p", 5, "P: one.", frozenset({"film", "director"}))
    second = Stated("q", 5, "Q: two.", frozenset({"director", "city"}))
    given = frozenset({"film"})
    both = results(("q", "12345"), ("p", "12345"))
    assert readable((first, second), given, both) == [first, second]
    assert readable((second, first), given, both) == [first, second]
    # the page of the second hop says nothing before the first is known
    assert readable((first, second), given, results(("q", "12345"))) == []
    # a sentence that was cut off cannot be read
    assert readable((first,), given, results(("p", "1234"))) == []


def test_it_knows_generated_worlds_and_their_tasks_only(env: SearchEnv) -> None:
    corpus = Corpus("own", [Passage("a", "A", "A is a city.", "a")])
    other = SearchEnv(corpus=corpus, tasks=list(env.tasks[:1]))
    with pytest.raises(TaskError, match="generated world"):
        QuotingOracle(other)
    stranger = SearchEnv(**{**KEYWORDS, "world": {"entities": 300, "seed": 77}})
    with pytest.raises(TaskError, match="no task asks"):
        run_episodes([episode_for(stranger, stranger.tasks[0], 0)], QuotingOracle(env), env.toolbox)
