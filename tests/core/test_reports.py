"""Reports of sub-tasks carry the passages that they name, and a share of the others."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from searchgym.core.episode import Episode
from searchgym.core.state import reported
from searchgym.types import Hit, Passage
from tests.small import CORPUS, episode, play


@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]))
def test_a_report_carries_what_it_names_and_a_share_of_the_rest(
    named: int, others: int, share: float
) -> None:
    hits = [Hit(Passage(f"n{i}", f"Aldor{i}x", f"town {i}", ""), 1.0) for i in range(named)]
    hits += [Hit(Passage(f"r{i}", f"Osten{i}x", f"river {i}", ""), 1.0) for i in range(others)]
    said = " and ".join(hit.passage.title for hit in hits[:named])
    found = reported(said, hits, share)
    expected = named + (min(max(1, ceil(share * others - 1e-9)), others))
    assert len(found) == expected
    assert set(hits[:named]) <= set(found)


def test_of_the_rest_the_nearest_are_carried() -> None:
    hits = [Hit(p, 1.0) for p in CORPUS]
    (nearest,) = reported("a painter born somewhere", hits[:3], 0.3)
    assert nearest.passage.title == "Mira Venn"


def test_reports_bring_their_evidence_to_the_planner() -> None:
    table = {"web": {"tools": ["search"], "evidence": 0.3}, "planner": {"tools": []}}
    e = episode(delegate=table, dialect="search_r1+delegate", max_turns=9)
    look = "<search> Aldor painter town river </search>"
    play(e, "<task> Who founded Aldor? </task>", look, "<answer> Mira Venn </answer>")
    assert e.contexts.active == 0
    kinds = [(s.kind, len(s.hits)) for s in e.contexts.visible(0)]
    found = [len(s.hits) for s in e.contexts.segments if s.context == 1 and s.hits]
    assert [k for k, _ in kinds[-2:]] == ["report", "results"]
    assert kinds[-1][1] == 1 + max(1, ceil(0.3 * (found[0] - 1)))
    again = Episode.restore(e.snapshot(), trust=True)
    assert again.observation() == e.observation()
