"""The table of methods in the catalogue says what is there, and all of it; recipes say where."""

from __future__ import annotations

import re

import pytest

from searchgym.cards import catalog
from searchgym.envs.search import SearchEnv
from searchgym.rl.recipe import Recipe, shipped
from searchgym.rl.slots.registry import REGISTRY
from searchgym.tasks.families import family

TEXT = (catalog("agents") / "README.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.partition("## What methods are made of")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| method")
]


def test_what_is_said_to_be_there_is_there() -> None:
    assert len(ROWS) > 35
    for row in ROWS:
        assert len(row) == 4, row
        for name in re.findall(r"`(\w+)`", row[1]):
            assert name in shipped(), f"{row[0]}: no recipe {name}"
        for slot, name in re.findall(r"`(\w+):(\w+)`", row[2]):
            assert name in REGISTRY[slot], f"{row[0]}: no {slot} {name}"  # type: ignore[index]
        assert re.search(r"`\w+:\w+`", row[2]) or row[3], f"{row[0]}: neither objects nor needs"


PUBLISHED = """
    REINFORCE REINFORCE++ RLOO GRPO Dr.GRPO OPO GSPO CISPO SAPO BN-GSPO TIS TOPR ReMax PPO DAPO TAPO
    Kimi SFT RAFT ReST-EM DPO Step-APO on-policy HyperEyes KEPO SPEAR SASR CHORD Stratified GiGPO
    SALT MAPO UI-S1 CoSearch PECO IGPO A²TGPO SubSearch InfoPO MatchTIR MT-GRPO SLATE SS-GRPO C-GRPO
    GRPO-CSV SPA-RL OPRL PAV MRT ReST-MCTS* SPO Tree-GRPO V-STAR MARS² ARPO LATR R³L Search-R2
    SmartSearch PRL THR NTHR VERL NoisyGRPO Latent-GRPO GraphRAG-R1 HC-GRPO DW-GRPO VPO RAPO RaPO
    Fathom decoupled M2PO rollout RAM Search-R1 ZeroSearch SSRL SearchGym Clip-Cov KL-Cov
""".split()
"""One word of each method's name that the slots are made for."""


def test_no_method_is_forgotten() -> None:
    words = {w for row in ROWS for w in re.split(r"[ ,]+", row[0])}
    assert not [name for name in PUBLISHED if name not in words]


def test_every_recipe_and_every_object_of_the_main_slots_is_in_it() -> None:
    named = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[1])}
    assert named == set(shipped())
    objects = {pair for row in ROWS for pair in re.findall(r"`(\w+):(\w+)`", row[2])}
    for slot in ("advantage", "loss"):
        missing = {n for n in REGISTRY[slot] if (slot, n) not in objects}  # type: ignore[index]
        assert not missing, f"{slot}: {missing}"


SMALL = {"world": {"entities": 80}, "tasks": {"simple": 4}}
EXTENDED = {name: env for name in shipped() if (env := dict(Recipe.of(name).env))}


@pytest.mark.parametrize("name", EXTENDED)
def test_a_recipes_environment_exists(name: str) -> None:
    """Built over a small world; where the recipe names no corpus, over the default one."""
    env = EXTENDED[name]
    made = SearchEnv(**{**env, **SMALL})
    assert made.tasks
    for kind in env.get("tasks", {}):
        family(kind)  # an unknown one raises
    assert made.setup.options.reward == env.get("reward", "em")


def test_the_search_recipes_say_where_they_search() -> None:
    assert {"search_r1_grpo", "search_r1_ppo", "zerosearch", "ssrl", "searchgym_rl"} <= set(
        EXTENDED
    )
    assert SearchEnv(**{**EXTENDED["ssrl"], **SMALL}).rules.dialect == "search_r1_self"
