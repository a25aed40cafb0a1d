"""``list`` and ``show``, and the catalogue's tables, which are made by ``list``."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from searchgym.cards import cards
from searchgym.cli.catalog import KINDS, ONE
from searchgym.cli.example import LINES, WIDTH, episode_lines
from searchgym.curricula import CURRICULA
from searchgym.dialects import DIALECTS
from searchgym.engines import ENGINES
from searchgym.tasks import FAMILIES
from searchgym.tools import TOOLS
from tests.cli.conftest import Cli

ROOT = Path(__file__).resolve().parents[2]


def test_list_names_everything(cli: Cli) -> None:
    found = cli("list", "--json").json
    assert [row["id"] for row in found["envs"]] == [c.id for c in cards("envs").values()]
    assert {row["id"] for row in found["corpora"]} == set(cards("corpora"))
    assert {row["id"] for row in found["agents"]} == set(cards("agents"))
    assert {row["id"] for row in found["engines"]} == set(ENGINES)
    assert {row["id"] for row in found["dialects"]} == set(DIALECTS)
    assert {row["id"] for row in found["tools"]} == set(TOOLS)
    assert {row["id"] for row in found["families"]} == set(FAMILIES)
    assert {row["id"] for row in found["curricula"]} == set(CURRICULA)
    for kind, rows in found.items():
        assert all(row["covers" if kind == "systems" else "summary"] for row in rows)


def test_list_shows_tables(cli: Cli) -> None:
    out = cli("list", "all").out
    for title in ("Environments", "Corpora", "Agents", "Engines", "Dialects"):
        assert title in out
    assert "LongSearchQA-v0" in out
    assert "Agents" not in cli("list", "engines").out


@pytest.mark.parametrize(
    "name", ["SearchQA-v0", "SearchQA", "searchgym/NQ-v0", "encyclopedia", "hotpotqa", "rules",
             "bm25", "search_r1", "calculator", "simple", "staged", "smollm2-135m", "MUA-RL"],
)  # fmt: skip
def test_show_knows_every_kind_of_id(cli: Cli, name: str) -> None:
    assert cli("show", name, "--json").json["summary"]
    assert name in cli("show", name).out


def test_show_an_environment(cli: Cli) -> None:
    facts = cli("show", "SearchQA-v0", "--json").json
    assert facts["also"] == ["searchgym/SearchQA-v0"]
    assert facts["other versions"] == ["searchgym/SearchQA-v1", "SearchQA-v1"]
    assert facts["kwargs"]["corpus"] == "encyclopedia"
    assert "FreeText" in facts["action space"]
    assert "generated encyclopedia" in facts["description"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_listed_is_shown_by_its_kind(cli: Cli, kind: str) -> None:
    name = KINDS[kind]()[0]["id"].removeprefix("searchgym/")
    for before in {kind, ONE.get(kind, kind.removesuffix("s"))}:
        facts = cli("show", f"{before}:{name}", "--json").json
        assert facts["id"].removeprefix("searchgym/") == name
        assert facts["summary"]
        assert facts["others"] == []


def test_a_name_of_several_kinds_says_so(cli: Cli) -> None:
    assert cli("show", "service", "--json").json["others"] == ["reward:service"]
    assert "reward:service" in cli("show", "service").out
    family, reward = (cli("show", f"{kind}:travel", "--json").json for kind in ("family", "reward"))
    assert (family["kind"], reward["kind"]) == ("families", "rewards")
    assert family["summary"] != reward["summary"]
    lost = cli("show", "reward:servise")
    assert lost.code == 2
    assert "unknown reward 'servise'. Did you mean 'service'" in lost.err


@pytest.mark.parametrize(
    ("name", "output"), [("ServiceQA-v1", "I live in"), ("TravelQA-v0", "day 1 | T")]
)
def test_an_example_shows_the_beginning_of_what_tools_return(name: str, output: str) -> None:
    lines = episode_lines(name)
    assert any(line.startswith(f"   {output}") for line in lines)
    assert any(re.fullmatch(r"   … and \d+ more", line) for line in lines)
    brought = itertools.groupby(lines, lambda line: line.startswith("   "))
    assert max(len([*group]) for told, group in brought if told) <= LINES + 1
    assert all(len(line) <= WIDTH for line in lines)
