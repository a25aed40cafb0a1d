"""The catalogue: every card is read, pages have their sections, mistakes are named."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import searchgym  # noqa: F401  (registers)
from searchgym.cards import Card, card, cards, catalog, read_card
from searchgym.core import gold_calls
from searchgym.dialects import get_dialect
from searchgym.envs import (
    ENTRY_POINT,
    Options,
    SearchEnv,
    env_ids,
    ids_of,
    register_card,
    versions_of,
)
from searchgym.errors import CardError

KINDS = ("envs", "corpora", "agents")
SECTIONS = [
    "Description", "Action Space", "Observation Space", "Rewards", "Starting State",
    "Episode End", "Arguments", "Version History",
]  # fmt: skip
CORPUS_SECTIONS = ["Description", "Use", "Licence and Citation"]
AGENT_SECTIONS = ["Description", "Running", "Results", "What was tried"]
"""The last two where there is something to tell."""
ENVS = list(cards("envs").values())
OF_OUR_CLASS = [c for c in ENVS if c.body.get("use", ENTRY_POINT) == ENTRY_POINT]
GENERATED = [c for c in ENVS if "tasks" in c.body.get("kwargs", {})]
REAL = {"HotpotQA", "2WikiMultihopQA", "MuSiQue", "NQ", "TriviaQA", "PopQA", "Bamboogle"}


def write_card(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "card.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_every_card_is_read_and_has_a_page(kind: str) -> None:
    found = cards(kind)
    assert found, f"no card in {kind}/"
    for name, item in found.items():
        assert item.folder.name == name
        page = item.folder / "README.md"
        assert page.is_file(), f"{page} is missing"
        assert len(page.read_text(encoding="utf-8")) > 200


@pytest.mark.parametrize("kind", ["envs", "corpora"])
def test_no_python_in_a_catalogue(kind: str) -> None:
    assert not list(catalog(kind).rglob("*.py"))
    assert (catalog(kind) / "README.md").is_file()


@pytest.mark.parametrize("item", ENVS, ids=lambda c: c.id)
def test_an_environments_page_has_the_fixed_sections(item: Card) -> None:
    text = (item.folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert text.startswith(f"# {item.folder.name}\n\n{item.summary}\n")
    for section in text.split("\n## ")[1:]:
        assert section.partition("\n")[2].strip(), f"{section.splitlines()[0]} is empty"


@pytest.mark.parametrize("kind", ["corpora", "agents"])
def test_every_page_has_the_sections_of_its_kind_in_their_order(kind: str) -> None:
    for item in cards(kind).values():
        text = (item.folder / "README.md").read_text(encoding="utf-8")
        found = re.findall(r"^## (.+)$", text, re.MULTILINE)
        if kind == "corpora":
            assert found == CORPUS_SECTIONS, item.id
            assert item.body["licence"].partition(";")[0] in text
        else:
            assert found[:2] == AGENT_SECTIONS[:2], item.id
            assert found == [name for name in AGENT_SECTIONS if name in found], item.id
        lead, *sections = text.split("\n## ")
        assert re.fullmatch(r"# [^\n]+\n\n\S[^#]+", lead), f"{item.id}: a title and a sentence"
        assert all(section.partition("\n")[2].strip() for section in sections), item.id


@pytest.mark.parametrize("item", OF_OUR_CLASS, ids=lambda c: c.id)
def test_an_environments_options_exist(item: Card) -> None:
    options = Options.of(item.body["kwargs"])
    get_dialect(options.dialect)
    card("corpora", options.corpus)


@pytest.mark.parametrize(
    "env_id",
    [*(env_id for item in GENERATED for env_id in versions_of(item) if "/" in env_id),
     "SearchQA-v0", "searchgym/DerivedQA-v0"],
)  # fmt: skip
def test_every_question_fits_its_budget(env_id: str) -> None:
    """Of version 0, which asks the same of another world, two are enough."""
    keywords = gym.spec(env_id).kwargs
    with warnings.catch_warnings():
        if env_id.endswith("-v1"):
            warnings.simplefilter("error")
        shared = SearchEnv(**keywords)
    counts = {name: n for name, n in keywords["tasks"].items() if name != "at_most"}
    families = {n if n.startswith("derived-") else n.partition("-")[0] for n in counts}
    assert {task.family for task in shared.tasks} == families
    asked = sum(counts.values())
    if env_id.endswith("-v1"):
        assert (
            Counter(task.id.rpartition("-")[0].split("-train-")[1] for task in shared.tasks)
            == counts
        )
    assert len(shared.tasks) >= 0.5 * asked
    alone = keywords.get("engine") == "self"  # all is written in one text
    for task in shared.tasks:
        calls = gold_calls(task, shared.rules.tools) or set(task.queries)
        turns = 1 if alone else len(calls) + 1  # one call or query a turn, then the answer
        assert turns <= shared.rules.max_turns, f"{task.id} takes {turns} turns"
        most = shared.rules.max_queries
        assert most is None or len(calls) <= most, f"{task.id} takes {len(calls)} queries"


def test_the_page_on_environments_names_every_option() -> None:
    text = (catalog("envs") / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Keywords")[2]
    missing = [f.name for f in dataclasses.fields(Options) if f"`{f.name}`" not in table]
    assert not missing


def test_the_expected_ids_are_registered() -> None:
    ids = set(env_ids())
    assert "SearchQA-v0" in ids
    named = {"SearchQA", "SimpleQA", "MultiHopQA", "LongSearchQA", *REAL}
    assert {f"searchgym/{name}-v0" for name in named} <= ids
    assert ids <= set(gym.registry)


def test_versions_change_what_their_card_says_they_change() -> None:
    for item in GENERATED:
        assert set(versions_of(item)) == {env_id.replace("-v0", "-v1") for env_id in ids_of(item)}
        for env_id, changes in versions_of(item).items():
            more = {"DerivedQA": {"max_turns"}, "MisinformationQA": {"engine"}}
            name = env_id.removeprefix("searchgym/").removesuffix("-v1")
            assert changes["corpus"] == "encyclopedia-v1"
            assert set(changes) == {"corpus"} | more.get(name, set())
            assert gym.spec(env_id).kwargs == {**item.body["kwargs"], **changes}
    assert gym.spec("MultiHopQA-v1").kwargs == gym.spec("searchgym/MultiHopQA-v1").kwargs
    assert "searchgym/MultiHopQA-v1" in env_ids()
    assert "MultiHopQA-v1" not in env_ids(), "short ids are for gym.make alone"


@pytest.mark.parametrize("env_id", env_ids())
def test_a_spec_survives_json(env_id: str) -> None:
    spec = gym.spec(env_id)
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_a_bad_key_suggests_the_right_one(tmp_path: Path) -> None:
    folder = write_card(tmp_path / "X-v0", 'id = "a/X-v0"\nsumary = "typo"\n')
    with pytest.raises(CardError, match=r"unknown key 'sumary'. Did you mean 'summary'"):
        read_card(folder, "envs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id = "a/X-v0"\n', "'summary' is missing"),
        ('id = 3\nsummary = "s"\n', "'id' must be a non-empty string, got 3"),
        ('id = "a/Y-v0"\nsummary = "s"\n', "does not match its folder 'X-v0'"),
        ('id = "a/X-v0\n', "not valid TOML"),
    ],
)
def test_a_broken_card_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CardError, match=message):
        read_card(write_card(tmp_path / "X-v0", text), "envs")


def test_a_missing_card_and_an_unknown_name() -> None:
    with pytest.raises(CardError, match=r"card\.toml is missing"):
        read_card(Path("nowhere"), "envs")
    with pytest.raises(CardError, match="Did you mean 'SimpleQA-v0'"):
        card("envs", "SimpelQA-v0")


def test_a_card_of_ones_own_is_registered(tmp_path: Path) -> None:
    folder = write_card(
        tmp_path / "MineQA-v0",
        'id = "mine/MineQA-v0"\naliases = ["MineQA-v0"]\nsummary = "s"\n[kwargs]\nmax_turns = 2\n',
    )
    mine = read_card(folder, "envs")
    register_card(mine)
    try:
        assert ids_of(mine) == ("mine/MineQA-v0", "MineQA-v0")
        assert gym.spec("MineQA-v0").kwargs == {"max_turns": 2}
        register_card(mine)  # twice is harmless
    finally:
        for env_id in ids_of(mine):
            gym.registry.pop(env_id)


def test_an_unknown_option_of_make_is_named() -> None:
    with pytest.raises(CardError, match=r"'max_turn'. Did you mean 'max_turns'"):
        gym.make("SearchQA-v0", max_turn=3)
