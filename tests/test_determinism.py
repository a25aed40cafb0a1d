"""Equal seeds give equal bytes in every process, whatever order its sets and dictionaries have."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from searchgym.corpora import render
from searchgym.evaluation import crossed_interval, mean_interval
from searchgym.kgs import find_communities, from_world
from searchgym.tasks import build_tasks
from searchgym.worlds import generate, load_schema, world_digest
from searchgym_agents.knower.knowledge import Knowledge
from searchgym_agents.knower.recipe import KnowerRecipe
from tests.kgs.random_graphs import generated
from tests.tasks.conftest import COUNTS
from tests.tasks.tiny import make_corpus, random_world

ROOT = Path(__file__).resolve().parent.parent


def drawn() -> dict[str, str]:
    """What is drawn by seeds, as text."""
    world = generate(
        load_schema("encyclopedia"), entities=300, seed=3, homonyms=0.1, lookalikes=0.1
    )
    fitting = generate(
        load_schema("encyclopedia-v1"), entities=300, seed=3, lookalikes=0.1, names_part=(1, 3)
    )
    small = random_world(3)
    scores = [0.0, 1.0, 0.5, 0.0, 0.25] * 9
    communities = find_communities(from_world(generated()[0]))
    recipe = KnowerRecipe(entities=60, seed=4)
    knowledge = Knowledge.drawn(recipe, recipe.env(tasks={"simple": 1}).world)
    found: dict[str, Any] = {
        "world": world_digest(world),
        "fitting": world_digest(fitting),
        "passages": render(world, distractors=2, phrasing="all").digest,
        "tasks": build_tasks(small, make_corpus(small), counts=COUNTS, seed=3),
        "intervals": [mean_interval(scores, seed=4),
                      crossed_interval([scores, scores[::-1]], seed=4)],
        "communities": [level.tolist() for level in communities.labels],
        "knowledge": [knowledge.world, sorted(knowledge.taught), sorted(knowledge.shown)],
    }  # fmt: skip
    return {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in found.items()}


def test_another_process_draws_the_same() -> None:
    code = "import json, tests.test_determinism as t; print(json.dumps(t.drawn()))"
    other = "77" if os.environ.get("PYTHONHASHSEED") == "4711" else "4711"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": other},
    )  # fmt: skip
    assert json.loads(done.stdout) == drawn()
