"""A tiny searchable world of hand-made pages for training tests; no encoder, no generator."""

import pytest

from searchgym.corpora import Corpus
from searchgym.envs import SearchEnv
from searchgym.types import Passage, Task
from searchgym_agents.candidate.arena import Arena
from searchgym_agents.candidate.features import FeatureBuilder

_FIRST = "Anko Belu Cerdo Dimma Elvar Forst Gelta Hurmo Ilko Jarna Kelmo Lurda".split()
_CITIES = "Tarsk Olmen Pirda Veld Sorno Quarn Mildo Brast Nerva Huldo Fesk Grano".split()


@pytest.fixture
def make_arena():
    def build(task_count=12, dialect="plain"):
        passages, tasks = [], []
        for i in range(task_count):
            name, city = f"{_FIRST[i]} Morrin{chr(97 + i)}", _CITIES[i]
            spouse = f"{_FIRST[(i + 5) % 12]} Hask"
            text = f"{name} is a drummer. {name} married {spouse}. {name} was born in {city}."
            passages.append(Passage(f"p{i:02d}", name, text, f"u{i}"))
            question = f"In which city was {name} born?" if i % 2 else f"Who married {name}?"
            tasks.append(
                Task(f"t{i}", question, (city if i % 2 else spouse,), (f"p{i:02d}",), (question,))
            )
        corpus = Corpus("tiny", passages)
        env = SearchEnv(corpus=corpus, tasks=tasks, dialect=dialect, k=2, max_turns=3)
        return Arena("tiny", env, FeatureBuilder(None))

    return build
