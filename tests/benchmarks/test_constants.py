"""All constants and tricks, every family and reward, against the stored table; QueryRewriteQA's
page."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers)
from docsite.constant import sentence
from searchgym.cards import cards

from ..constants import TABLE, best, by_family, families

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_the_stored_table_is_what_is_measured() -> None:
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    env = families()
    for family, tasks in by_family(env).items():
        for reward, (name, mean) in best(env, tasks).items():
            assert mean == pytest.approx(stored[family][reward][1]), (family, name)


def test_the_page_of_query_rewriting_states_what_is_so() -> None:
    page = cards("envs")["QueryRewriteQA-v0"].folder / "README.md"
    stated = sentence(gym.make("searchgym/QueryRewriteQA-v0"))
    assert stated in page.read_text(encoding="utf-8")
