"""``searchgym graph`` and graphs behind the other commands."""

from __future__ import annotations

import json

import pytest

TRIPLES = "Inception\tdirector\tChristopher Nolan\nChristopher Nolan\tborn in\tLondon\n"


@pytest.fixture
def triples(tmp_path):
    path = tmp_path / "films.tsv"
    path.write_text(TRIPLES, encoding="utf-8")
    return f"kg:{path}"


def test_show_counts_and_entities(cli, triples):
    found = json.loads(cli("graph", "show", triples, "--json").out)
    assert (found["entities"], found["facts"], found["relations"]) == (3, 2, 2)
    assert found["most joined"] == "Christopher Nolan"
    one = json.loads(cli("graph", "show", triples, "christopher nolan", "--json").out)
    assert one["facts"] == [
        {"head": "Christopher Nolan", "relation": "born in", "tail": "London"},
        {"head": "Inception", "relation": "director", "tail": "Christopher Nolan"},
    ]
    assert "London" in cli("graph", "show", triples, "Christopher Nolan").out


def test_path(cli, triples):
    assert cli("graph", "path", triples, "London", "Inception").out.splitlines() == [
        "Christopher Nolan — born in: London",
        "Inception — director: Christopher Nolan",
    ]
    assert json.loads(cli("graph", "path", triples, "London", "London", "--json").out) == {
        "facts": []
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("path", "{kg}", "London", "Inception", "--max-len", "1"), "no path of at most 1 facts"),
        (("show", "{kg}", "Nolan"), "did you mean 'Christopher Nolan'"),
        (("show", "kg:{folder}/no.tsv"), "does not exist"),
        (("show", "{folder}/notes.jsonl"), "no graph behind it"),
    ],
)
def test_errors_are_one_line(cli, triples, tmp_path, arguments, said):
    (tmp_path / "notes.jsonl").write_text('{"id": "1", "text": "a note"}\n', encoding="utf-8")
    done = cli("graph", *(a.format(kg=triples, folder=tmp_path) for a in arguments))
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_world_has_a_graph_too(cli):
    found = json.loads(cli("graph", "show", "encyclopedia", "--json").out)
    assert found["entities"] == 3600
    assert found["values"] > 100


def test_the_passages_of_a_graph_can_be_inspected(cli, triples):
    assert cli("corpus", "inspect", triples, "--json").json["passages"] == 3
