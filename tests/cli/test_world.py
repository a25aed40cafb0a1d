"""``world``: what is written can be read back; the same seed writes the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from searchgym.corpora import load_corpus
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym.tasks import FAMILIES
from tests.cli.conftest import Cli
from tests.corpora.scripted import Scripted

SMALL = ["-s", "entities=400"]


@pytest.fixture
def written(cli: Cli, tmp_path: Path) -> Path:
    out = tmp_path / "world"
    done = cli("world", "generate", "encyclopedia", *SMALL, "--tasks", 5, "--out", out, "--json")
    facts = done.json
    assert facts["entities"] == facts["passages"] == 400
    assert facts["tasks proved"] + facts["tasks dropped"] == len(FAMILIES.shipped) * 5
    assert len((out / "tasks.jsonl").read_text().splitlines()) == facts["tasks proved"]
    assert load_corpus(out / "passages.jsonl").digest == facts["corpus digest"]
    return out


def test_a_written_world_is_an_environment(written: Path) -> None:
    from searchgym.agents import OracleAgent

    shared = SearchEnv(
        **{"corpus": str(written / "passages.jsonl"), "tasks": str(written / "tasks.jsonl"),
         "max_turns": 42, "may_abstain": True}
    )  # fmt: skip
    assert len({task.family for task in shared.tasks}) == len(FAMILIES.shipped)
    result = evaluate(OracleAgent(shared.tasks), shared)
    assert result.means["em"].mean == 1.0


def test_the_same_seed_writes_the_same_bytes(cli: Cli, written: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert cli("world", "generate", "encyclopedia", *SMALL, "--tasks", 5, "--out", again).code == 0
    for name in ("passages.jsonl", "tasks.jsonl", "entities.jsonl"):
        assert (again / name).read_bytes() == (written / name).read_bytes()


def test_a_world_is_checked_without_writing(cli: Cli, tmp_path: Path) -> None:
    done = cli("world", "generate", "encyclopedia", *SMALL, "--tasks", 1, "--json")
    assert (done.code, done.json["folder"], done.json["entities"]) == (0, None, 400)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "card.toml").write_text('id = "other"\nkind = "world"\nsummry = "A world."\n')
    (mine / "schema.toml").write_text('[types.firm]\nshare = 1\nnames = "cty"\n')
    for command in ("generate", "inspect"):
        done = cli("world", command, mine)
        assert (done.code, done.err.count("\n")) == (2, 1)
        for told in ("does not match its folder 'mine'", "Did you mean 'summary'",
                     "'summary' is missing", "types.firm: missing 'lead'",
                     "no relations or attributes"):  # fmt: skip
            assert told in done.err, (command, told, done.err)


def test_another_wording_leaves_the_graph(cli: Cli, written: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    wording = ["-s", "wording.seed=9"]
    cli("world", "generate", "encyclopedia", *SMALL, *wording, "--tasks", 5, "--out", other)
    same = (other / "entities.jsonl").read_bytes() == (written / "entities.jsonl").read_bytes()
    text = (other / "passages.jsonl").read_bytes() == (written / "passages.jsonl").read_bytes()
    assert (same, text) == (True, False)


def test_inspect_counts_what_is_there(cli: Cli) -> None:
    found = cli("world", "inspect", "encyclopedia", *SMALL, "--json").json
    assert sum(row["entities"] for row in found["types"]) == found["entities"] == 400
    assert sum(row["facts"] for row in found["properties"]) == found["facts"]
    assert "birthplace" in cli("world", "inspect", "encyclopedia", *SMALL).out


def test_inspect_one_entity(cli: Cli) -> None:
    types = cli("world", "inspect", "encyclopedia", *SMALL, "--json").json["types"]
    name = types[0]["example"]
    shown = cli("world", "inspect", "encyclopedia", *SMALL, "-e", name, "--json").json
    assert shown["page"]["title"] == name
    assert shown["facts"]
    wrong = cli("world", "inspect", "encyclopedia", *SMALL, "-e", name[:-1] + "~")
    assert wrong.code == 2
    assert repr(name) in wrong.err


def test_export(cli: Cli, tmp_path: Path) -> None:
    graphml, lines = tmp_path / "w.graphml", tmp_path / "w.jsonl"
    assert cli("world", "export", "encyclopedia", *SMALL, "--out", graphml).code == 0
    assert cli("world", "export", "encyclopedia", *SMALL, "--out", lines).code == 0
    graph = nx.read_graphml(graphml)
    records = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert graph.number_of_nodes() == len(records) == 400
    relations = sum(f["object"] is not None for r in records for f in r["facts"])
    assert graph.number_of_edges() == relations
    bad = cli("world", "export", "encyclopedia", "--out", tmp_path / "w.x", "--format", "xml")
    assert bad.code == 2


# --- graphs ---------------------------------------------------------------------------------------
TRIPLES = "Inception\tdirector\tChristopher Nolan\nChristopher Nolan\tborn in\tLondon\n"


@pytest.fixture
def triples(tmp_path: Path) -> str:
    path = tmp_path / "films.tsv"
    path.write_text(TRIPLES, encoding="utf-8")
    return f"kg:{path}"


def test_a_graph_is_inspected(cli: Cli, triples: str) -> None:
    found = cli("world", "inspect", triples, "--json").json
    assert (found["entities"], found["facts"], found["relations"]) == (3, 2, 2)
    assert found["most joined"] == "Christopher Nolan"
    one = cli("world", "inspect", triples, "-e", "christopher nolan", "--json").json
    assert one["facts"] == [
        {"head": "Christopher Nolan", "relation": "born in", "tail": "London"},
        {"head": "Inception", "relation": "director", "tail": "Christopher Nolan"},
    ]
    assert "London" in cli("world", "inspect", triples, "-e", "Christopher Nolan").out
    assert cli("corpus", "inspect", triples, "--json").json["passages"] == 3


def test_a_path_joins_two_entities(cli: Cli, triples: str) -> None:
    assert cli("world", "path", triples, "London", "Inception").out.splitlines() == [
        "Christopher Nolan — born in: London",
        "Inception — director: Christopher Nolan",
    ]
    assert cli("world", "path", triples, "London", "London", "--json").json == {"facts": []}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("path", "{kg}", "London", "Inception", "--max-len", "1"), "no path of at most 1 facts"),
        (("inspect", "{kg}", "-e", "Nolan"), "did you mean 'Christopher Nolan'"),
        (("inspect", "kg:{folder}/no.tsv"), "does not exist"),
        (("path", "{folder}/notes.jsonl", "a", "b"), "no graph behind it"),
    ],
)
def test_mistakes_about_graphs_are_one_line(
    cli: Cli, triples: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "notes.jsonl").write_text('{"id": "1", "text": "a note"}\n', encoding="utf-8")
    done = cli("world", *(a.format(kg=triples, folder=tmp_path) for a in arguments))
    assert (done.code, done.err.strip().count("\n")) == (2, 0)
    assert said in done.err


def test_the_command_goes_on_where_it_broke_off(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "w"
    words = ["world", "generate", "encyclopedia-v1", "-s", "entities=400", "--tasks", 0]
    words += ["--writer", "tests.corpora.scripted:Scripted", "--json", "--out"]
    monkeypatch.setattr(Scripted, "asked", 0)
    monkeypatch.setattr(Scripted, "dies_after", 200)
    assert cli(*words, out).code != 0
    assert not (out / "passages.jsonl").exists()
    monkeypatch.setattr(Scripted, "dies_after", 10**9)
    monkeypatch.setattr(Scripted, "asked", 0)
    done = cli(*words, out)
    assert Scripted.asked < 250  # the others are on disk
    assert done.json["rewritten"] > 300
    assert load_corpus(out / "passages.jsonl").digest == done.json["corpus digest"]
    first = (out / "passages.jsonl").read_bytes()
    monkeypatch.setattr(Scripted, "asked", 0)
    assert cli(*words, out).code == 0
    assert Scripted.asked == 0
    assert (out / "passages.jsonl").read_bytes() == first
