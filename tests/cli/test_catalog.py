"""``list`` and ``show``, and the catalogue's tables, which are made by ``list``."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.cards import cards
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
             "bm25", "search_r1", "calculator", "simple", "staged"],
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
