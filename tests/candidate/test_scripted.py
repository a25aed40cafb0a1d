"""Scripted agents on real episodes."""

import pytest

from searchgym import (
    BestSentenceAgent,
    ConstantAgent,
    FirstHitAgent,
    RandomAgent,
    RulesAgent,
)
from searchgym.core import Episode, EpisodeConfig, Rules, run_episodes
from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.tools import SearchTool, Toolbox
from searchgym.types import Passage, Task

PASSAGES = [
    Passage("a", "Velda Morrin", "Velda Morrin (born 5 May 1921) played in Blue Kites.", "a"),
    Passage("b", "Tom Hask", "Tom Hask (born 3 June 1950) is a baker living in Olmen.", "b"),
    Passage("c", "Blue Kites", "Blue Kites is a band founded by Velda Morrin in 1950.", "c"),
]
TASKS = [
    Task("when", "When was Velda Morrin born?", ("5 May 1921",), ("a",)),
    Task("polar", "Is Velda Morrin a drummer?", ("yes",), ("a",)),
    Task("choice", "Which person is a baker from Olmen, Tom Hask or Velda Morrin?", ("Tom Hask",)),
    Task("bridge", "Who founded Blue Kites?", ("Velda Morrin",), ("c",)),
]


@pytest.fixture(params=["plain", "search_r1", "asearcher", "json_tools"])
def play(request):
    toolbox = Toolbox({"search": SearchTool(build_engine("bm25", Corpus("x", PASSAGES)), 2)})
    rules = Rules(toolbox.specs(("search",)), dialect=request.param, k=2, max_turns=3)

    def run(agent, order=1):
        episodes = [Episode(EpisodeConfig(t, rules, 0, t.id)) for t in TASKS[::order]]
        run_episodes(episodes, agent, toolbox)
        return {e.config.task.id: e for e in episodes}

    return run


def answers(episodes):
    return {name: e.outcome().answer for name, e in episodes.items()}


def test_rules(play):
    played = play(RulesAgent())
    assert answers(played) == {
        "when": "5 May 1921",
        "polar": "yes",
        "choice": "Tom Hask",
        "bridge": "Velda Morrin",
    }
    assert all(e.queries == 1 and e.terminated for e in played.values())


def test_first_hit_and_best_sentence(play):
    assert answers(play(FirstHitAgent()))["when"] == "Velda Morrin"
    assert answers(play(BestSentenceAgent()))["bridge"] in ("band", "Velda Morrin", "1950")


def test_random_is_keyed_by_episode_and_turn_not_by_order(play):
    texts = [
        {k: [t.text for t in e.turns] for k, e in play(RandomAgent(seed), order).items()}
        for seed, order in ((3, 1), (3, -1), (4, 1))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_constant_answers_without_searching(play):
    played = play(ConstantAgent("yes"))
    assert set(answers(played).values()) == {"yes"}
    assert not any(e.queries for e in played.values())
