"""The four shortcut risks of questions, on texts where each is there or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from searchgym.cli import build
from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.types import Passage, Task
from searchgym_agents.audit.shortcuts import Shortcut, find_shortcuts, rates

CORPUS = Corpus("c", [
    Passage("a", "Glass Orchard", "Glass Orchard is a film directed by Ida Holm.", ""),
    Passage("b", "Ida Holm", "Ida Holm was born in Port Vale on 3 May 1920.", ""),
    Passage("c", "Night Ferry", "Night Ferry is a film directed by Tom Reed.", ""),
    Passage("d", "Tom Reed", "Tom Reed, who made Night Ferry, was born in Norwick.", ""),
    *(Passage(f"x{i}", f"Town {i}", f"A town with a film club and {i} clubs.", "")
      for i in range(9)),
])  # fmt: skip


def task(question: str, answer: str, *evidence: str, family: str = "bridge") -> Task:
    return Task(question, question, (answer,), evidence, family=family)


def found(*tasks: Task, k: int = 1) -> list[Shortcut]:
    return find_shortcuts(tasks, CORPUS, BM25Engine(CORPUS), k=k)


def test_a_sound_bridge_has_no_shortcut() -> None:
    (one,) = found(task("Where was the director of Glass Orchard born?", "Port Vale", "a", "b"))
    assert one[2:] == (False, False, False, False)


def test_each_risk_is_seen() -> None:
    born = "Who directed Glass Orchard and was born on 3 May 1920 in a town of clubs?"
    told, both, named = found(
        task(born, "Port Vale", "a", "b"),
        task("Where was the director of Night Ferry born?", "Norwick", "c", "d"),
        task("Where was Ida Holm of Glass Orchard born?", "Port Vale", "a", "b"),
    )
    assert (told.one_clue, told.constants) == (True, True)  # the date leads to the last page
    assert (both.one_page, both.constants) == (True, False)  # Tom Reed's page names his film
    assert named.constants


def test_both_sides_of_a_comparison_are_needed() -> None:
    asked = "Who was born first, Ida Holm or Tom Reed?"
    (one,) = found(task(asked, "Ida Holm", "b", "d", family="comparison"))
    assert (one.one_clue, one.constants) == (False, True)


def test_what_the_others_answer_is_a_prior_and_refusals_are_left_out() -> None:
    tasks = [task(f"Is it so, {i}?", "yes" if i else "no", "a") for i in range(4)]
    refused = Task("r", "Is it so?", ("unknown",), should_abstain=True)
    findings = found(*tasks, refused)
    assert [f.priors for f in findings] == [False, True, True, True]
    assert [f.one_page for f in findings] == [None] * 4
    assert rates(findings)["all"]["priors"].mean == 0.75
    assert rates(findings)["all"]["one clue"].n == 0


def test_the_command_writes_every_finding(tmp_path: Path) -> None:
    out = tmp_path / "found.csv"
    arguments = ["audit", "MultiHopQA-v0", "--shortcuts", "-n", "20", "--out", str(out)]
    said = CliRunner().invoke(build(), arguments)
    assert said.exit_code == 0, said.output
    assert len(out.read_text(encoding="utf-8").splitlines()) == 21


@pytest.mark.parametrize("k", [1, 5])
def test_more_hits_never_hide_a_clue(k: int) -> None:
    tasks = [task("Where was the director of Glass Orchard born?", "Port Vale", "a", "b")]
    assert found(*tasks, k=k)[0].one_clue in (False, k > 1)
