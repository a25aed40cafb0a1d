"""The supporting oracle: it answers from labelled passages, and only what it has read."""

from __future__ import annotations

import pytest

from searchgym.core import Episode, run_episodes
from searchgym.corpora import Corpus
from searchgym.envs import SearchEnv
from searchgym.errors import DialectError, TaskError
from searchgym.evaluation import episode_for
from searchgym.policies import TrainableLM
from searchgym.types import ABSTAIN, Passage, Task
from searchgym_agents.experts import SupportingOracle
from searchgym_agents.language_model.demonstrations import count_of, demonstrations, environments_of
from tests.llms import tiny

PAGES = [
    Passage("p1", "Vellmar Bridge", "It spans the river Aue. It was drawn by Ida Kronn.", ""),
    Passage("p2", "Ida Kronn (architect)", "Kronn built bridges. She was born in Tarsk.", ""),
    Passage("p3", "Osmo Lind", "Lind is a painter. He died in Pelm.", ""),
    Passage("p4", "Hidden Page", "A mill on the hill. It grinds rye.", ""),
]
TASKS = [
    Task("bridge", "Which is the home of who drew Vellmar Bridge?", ("Tarsk",), ("p1", "p2")),
    Task("direct", "In which town did Osmo Lind die?", ("Pelm",), ("p3",)),
    Task("yes", "Did the painter Osmo Lind die in Pelm?", ("yes",), ("p3",)),
    Task("unread", "What colour is Osmo Lind's hair?", ("red",), ("p3",)),
    Task("unnamed", "What does Osmo Lind's brother grind?", ("rye",), ("p3", "p4")),
    Task("unlabelled", "Who painted Vellmar Bridge?", ("Osmo Lind",)),
]


def setting(**keywords) -> SearchEnv:
    corpus = Corpus("labelled", PAGES)
    return SearchEnv(**{"corpus": corpus, "tasks": TASKS, "k": 1, "max_turns": 4, **keywords})


@pytest.fixture(scope="module")
def episodes() -> dict[str, Episode]:
    env = setting()
    made = [episode_for(env, task, 0) for task in env.tasks]
    return {e.config.task.id: e for e in run_episodes(made, SupportingOracle(env), env.toolbox)}


def written(episode: Episode) -> list[str]:
    return [s.text for s in episode.contexts.visible(0) if s.author == "policy"]


def test_it_follows_titles_that_it_has_read(episodes: dict[str, Episode]) -> None:
    assert written(episodes["bridge"]) == [
        "<search> Which is the home of who drew Vellmar Bridge? </search>",
        "<think>Vellmar Bridge: It was drawn by Ida Kronn.</think>\n"
        "<search> Ida Kronn (architect) </search>",
        "<think>Ida Kronn (architect): She was born in Tarsk.</think>\n<answer> Tarsk </answer>",
    ]
    assert written(episodes["direct"])[1:] == [
        "<think>Osmo Lind: He died in Pelm.</think>\n<answer> Pelm </answer>"
    ]
    assert "<answer> yes </answer>" in written(episodes["yes"])[-1]


@pytest.mark.parametrize("name", ["unread", "unnamed", "unlabelled"])
def test_it_abstains_from_what_no_reader_could_know(
    episodes: dict[str, Episode], name: str
) -> None:
    assert f"<answer> {ABSTAIN} </answer>" in written(episodes[name])[-1]
    outcome = episodes[name].outcome()
    assert outcome is not None
    assert outcome.parts["em"] == 0.0


def test_settings_without_labels_or_thoughts_are_refused() -> None:
    with pytest.raises(TaskError, match="'labelled' names the passages"):
        SupportingOracle(setting(tasks=TASKS[-1:]))
    with pytest.raises(DialectError, match="tag dialects"):
        SupportingOracle(setting(dialect="json_tools"))


def test_a_set_teaches_without_seeds(tmp_path) -> None:
    model = tiny.save(tmp_path / "model", "llama", max_position_embeddings=8192)
    lm = TrainableLM(str(model), dtype="float32", device="cpu")
    recipe = {
        "expert": "supporting",
        "seeds": None,
        "env": {"corpus": Corpus("labelled", PAGES), "tasks": TASKS, "max_turns": 4},
        "variants": [{"k": 1}, {"k": 2}],
    }
    assert [env["k"] for env in environments_of(recipe)] == [1, 2]
    assert count_of(recipe) == 2
    made: list[int] = []
    rows = demonstrations(lm, recipe, renderer="plain", max_tokens=4_000, report=made.append)
    assert made == [1, 2]
    assert len(rows) == 7, "three questions can be answered with one result, four with two"
    assert all(row.own.any() and not row.own.all() for row in rows)
