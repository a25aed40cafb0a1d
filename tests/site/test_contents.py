"""What the site shows is what is stored: figures follow from files, pictures hold every node."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path

import gymnasium as gym
import pytest

from docsite import build, contents, figure, notebooks, scores
from docsite.picture import BELOW, TALL, WIDE, picture
from searchgym.benchmark import reference_runs
from searchgym.cards import Card, cards, catalog
from searchgym.types import GraphEdge, GraphNode, Passage, ReasoningGraph, Task

PLAYED = [
    card
    for card in cards("envs").values()
    if scores.has_engine(card) and not card.body["kwargs"].get("one_search")
]
CANDIDATE = catalog("agents") / "candidate"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figure_is_drawn_from_the_stored_run(scheme: str) -> None:
    drawn = figure.draw(reference_runs.load(CANDIDATE / "expected.json")[figure.RUN])
    stored = (CANDIDATE / f"transfer-{scheme}.svg").read_text(encoding="utf-8")
    assert stored == drawn[scheme], "make readme draws it anew"


def test_the_figures_title_follows_the_numbers() -> None:
    row = figure.Dumbbell("a", True, 0.2, 0.3, 0.25, 0.35, 100, True)
    unclear = row._replace(clear=False)
    assert figure.title([row, row, row._replace(real=False)])[1].endswith("on all 2 real sets")
    assert figure.title([row, unclear])[1].endswith("on 1 of 2 real sets")


@pytest.mark.parametrize("card", PLAYED, ids=lambda card: card.folder.name)
def test_scores_are_stored_with_the_command_that_measures_them(card: Card) -> None:
    run = scores.stored(card)["scripted"]
    agents = scores.scripted(card)
    assert run["arguments"] == scores.arguments(card, agents)
    means = {c["agent"]: c["mean"] for c in run["table"] if c["metric"] == "f1"}
    assert list(means) == agents
    assert means["random"] < 0.1
    if "oracle" in agents:
        assert means["oracle"] > 0.99


@pytest.mark.parametrize("card", [c for c in PLAYED if scores.generated(c)], ids=lambda c: c.id)
def test_pictures_hold_every_node_and_overlap_nowhere(card: Card) -> None:
    tasks = {k: v if k == "at_most" else 4 for k, v in card.body["kwargs"]["tasks"].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gym.make(card.id, world={"entities": 300}, tasks=tasks).unwrapped
    for task in env.tasks:  # type: ignore[attr-defined]
        drawn = picture(task)
        if task.graph is None:  # found by asking and looking up: there is nothing to draw
            assert task.meta["worked_out"]
            assert drawn is None
            continue
        assert drawn is not None
        assert len(drawn.boxes) == len(task.graph.nodes) + (not task.graph.answer)
        assert sum(box.role == "answer" for box in drawn.boxes) == 1
        for box in drawn.boxes:
            assert 0 <= box.x <= drawn.width - WIDE
            assert 0 <= box.y <= drawn.height - TALL
        for a, b in itertools.combinations(drawn.boxes, 2):
            assert abs(a.x - b.x) >= WIDE or abs(a.y - b.y) >= TALL


def test_a_chain_runs_down_and_an_arrow_from_subject_to_object() -> None:
    nodes = (GraphNode("a", "film", "Moth", True), GraphNode("b", "person", "Ann"))
    graph = ReasoningGraph(nodes, (GraphEdge("b", "directed", "a", 0, "p"),), "b")
    drawn = picture(Task("t", "Who?", ("Ann",), graph=graph))
    assert drawn is not None
    top, low = drawn.boxes
    assert (top.text, top.role, low.text, low.role) == ("Moth", "given", "Ann", "answer")
    assert low.y - top.y == BELOW
    (arrow,) = drawn.arrows
    assert (arrow.label, arrow.y1, arrow.y2) == ("directed", low.y, top.y + TALL)
    assert picture(Task("t", "Who?", ("Ann",))) is None


def test_an_excerpt_is_what_names_the_rest_of_the_reasoning() -> None:
    passage = Passage("p", "Moth", "Moth is a film. Ann directed it. It rained.", "u")
    assert contents.excerpt(passage, ["Moth", "Ann"]) == [("Ann", True), (" directed it.", False)]
    assert contents.excerpt(passage, ["Moth"]) == [(passage.text, False)]


def test_outputs_of_notebooks_are_fenced_and_code_is_left_alone() -> None:
    text = "```python\ndef f():\n    return 1\n```\n\n    \x1b[31m1\x1b[0m\n      2\n\nText.\n"
    fenced = "```{.text .output}\n1\n  2\n```\n"
    assert notebooks._fenced(text) == f"```python\ndef f():\n    return 1\n```\n\n{fenced}\nText.\n"
    assert "output" not in notebooks._fenced("    \n    \n![png](a.png)\n    \n")


def test_costs_have_a_command_each() -> None:
    measured = contents.costs()
    assert measured["commands"], json.dumps(measured)
    for row in measured["commands"]:
        assert row["cpu_seconds"] > 0
        assert 10 < row["megabytes"] < 24_000


def test_a_caption_says_what_its_own_question_names() -> None:
    for env in contents.environments():
        shown = env["example"]
        if shown is None or shown["picture"] is None:
            continue
        boxes = shown["picture"].boxes
        given = [box for box in boxes if box.role == "given"]
        for box in given:
            assert f"the {box.kind} {box.text.rstrip('…')}" in shown["caption"], env["name"]
        hidden = sum(box.role == "hidden" for box in boxes)
        assert ("to be found before the answer" in shown["caption"]) == (hidden > 0)


def test_one_agent_has_one_score_on_a_real_set_wherever_it_is_shown() -> None:
    from searchgym_agents.leaderboard.entries import entries

    rows = {(row.set, row.method): row.scores["f1"].mean for row in entries()}
    run = reference_runs.load(CANDIDATE / "expected.json")[figure.RUN]
    drawn = {row.name: row.trained for row in figure.rows(run)}
    for env in contents.environments():
        if env["beside"]:
            name = env["kwargs"]["corpus"]
            (cell,) = [row["f1"] for row in env["short"] if row["agent"] == "candidate"]
            assert cell["mean"] == rows[name, "candidate"]
            assert cell["mean"] in drawn.values()
    assert len(drawn) == 9


def test_docstrings_on_pages_hold_no_heads_of_sections() -> None:
    args = "Args:\n    a: One\n        thing.\n    b: Two."
    text = contents.markdown(f"Do it.\n\n{args}\n\nRaises:\n    X: no.")
    assert text == "Do it.\n\n`a`: One thing.<br>`b`: Two."
    for row in (*contents.tools(), *contents.engines(), *contents.rewards(), *contents.dialects()):
        assert not {"Args:", "Raises:", "Returns:"} & {*row["text"].split()}, row["name"]


def test_a_notebook_that_installs_what_it_needs_has_a_badge() -> None:
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    first, second = sorted(folder.glob("*.ipynb"))[:2]
    ours = "https://github.com/someone/searchgym"
    link = f"/github/someone/searchgym/blob/main/notebooks/{first.name}"
    assert link in notebooks.badge(first, ours)
    assert notebooks.badge(second, ours) == ""
    assert notebooks.badge(first, "https://git.example/searchgym") == ""


def test_sites_of_versions_stand_side_by_side_the_newest_first(tmp_path: Path) -> None:
    site, versions = tmp_path / "site", tmp_path / "versions"
    site.mkdir()
    for name in ("latest", '9"><script>'):
        (versions / name).mkdir(parents=True)
        (versions / name / "index.html").touch()
    for version in ("0.9.0", "0.10.0", "0.2.1", "0.10.0", "0.10.0rc1"):
        (site / "index.html").write_text(version, encoding="utf-8")
        build.publish(site, versions, version)
    listed = json.loads((versions / "versions.json").read_text(encoding="utf-8"))
    assert [row["version"] for row in listed] == ["0.10.0", "0.10.0rc1", "0.9.0", "0.2.1"]
    assert all(
        (versions / row["version"] / "index.html").read_text() == row["title"] for row in listed
    )
    assert 'url=0.10.0/"' in (versions / "index.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="Invalid version"):
        build.publish(site, versions, "../out")
