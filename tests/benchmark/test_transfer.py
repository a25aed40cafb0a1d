import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym import ConstantAgent, FirstHitAgent, RandomAgent
from searchgym.agents import OracleAgent
from searchgym.benchmark import Rung, generated_rungs, oracle, real_rungs, transfer
from searchgym.benchmark.table import save_report
from searchgym.errors import CardError, EvaluationError
from searchgym.evaluation import SCHEMA_VERSION, EvalResult
from searchgym.types import TurnRequest
from searchgym_agents.candidate.training import Learned
from tests.small import CORPUS, TASKS

SMALL = Rung("small", "real", {"corpus": CORPUS, "tasks": TASKS}, "by hand")


class Counted(ConstantAgent):
    """Says what it did not see, and counts how often it was asked."""

    fingerprint = "counted"
    asked = 0

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        self.asked += len(requests)
        return super().act(requests)


def test_table_by_hand() -> None:
    table = transfer(
        {"one": ConstantAgent("Mira Venn"), "seeds": [ConstantAgent("Quell"), ConstantAgent("x")],
         "oracle": oracle},
        [SMALL],
    )  # fmt: skip
    assert table.cell("small", "one", "em").mean == 0.5  # type: ignore[union-attr]
    assert table.cell("small", "seeds", "em").mean == 0.25  # type: ignore[union-attr]
    assert table.cell("small", "seeds", "em").method == "bca"  # type: ignore[union-attr]
    assert table.cell("small", "oracle", "em").mean == 1.0  # type: ignore[union-attr]
    assert table.cell("small", "nobody", "em") is None
    assert table.each_seed("small", "seeds", "em") == [0.5, 0.0]
    rows = {(r["agent"], r["metric"]): r for r in table.rows()}
    assert rows["seeds", "em"]["each_seed"] == "0.5000 0.0000"
    assert rows["one", "truncated"]["mean"] == 0
    (contrast,) = table.contrasts("seeds", ["one"], "em")
    assert contrast.difference.mean == pytest.approx(-0.25)
    assert 0 < contrast.p <= contrast.p_holm <= 1
    assert table.questions("small") == 2


def test_a_function_climbs_as_it_is_evaluated() -> None:
    def born(prompt: str) -> str:
        return "<answer>Quell</answer>"

    table = transfer(born, [SMALL])
    assert table.agents == ("born",)
    assert table.cell("small", "born", "em").mean == 0.5  # type: ignore[union-attr]
    both = transfer({"it": born, "seeds": [born, ConstantAgent("x")]}, [SMALL])
    assert both.each_seed("small", "seeds", "em") == [0.5, 0.0]
    for no_agent in (lambda text: text, "rules"):
        with pytest.raises(CardError, match="whose one parameter is called 'requests'"):
            transfer({"it": no_agent}, [SMALL])  # type: ignore[dict-item]


def test_processes_find_what_one_finds(tmp_path: Path) -> None:
    rungs = [SMALL, replace(SMALL, name="again"), replace(SMALL, name="first", cost=-1)]
    agents = {"one": ConstantAgent("Mira Venn"), "oracle": oracle,
              "seeds": [RandomAgent(1), RandomAgent(2)]}  # fmt: skip
    told: list[Any] = []

    @contextmanager
    def progress(label: str, total: int) -> Iterator[Callable[[int], Any]]:
        told.append((label, total))
        yield told.append
        told.append("end")

    here = transfer(agents, rungs)
    apart = transfer(agents, rungs, processes=2, out_dir=tmp_path, progress=progress)
    assert apart.complete
    assert apart.rows() == here.rows()
    assert list(apart.results) == list(here.results)
    assert {t for t in told if isinstance(t, tuple)} == {
        (f"{rung.name}: {agent}", 2) for rung in rungs for agent in agents
    }
    assert sum(t for t in told if isinstance(t, int)) == 3 * 4 * 2
    assert told.count("end") == 3 * 4
    told.clear()
    again = transfer(agents, rungs, out_dir=tmp_path, progress=progress)
    assert again.rows() == here.rows()
    assert {label for label, _ in (t for t in told if isinstance(t, tuple))} <= {
        f"{rung.name}: {agent}" for rung in rungs for agent in ("one", "oracle", "seeds")
        if getattr(agents[agent], "fingerprint", None) is None
    }  # fmt: skip


def test_oracle_sits_out_where_nothing_is_known() -> None:
    blind = [TASKS[0].__class__("t", "Who?", ("x",), ("p1",))]
    rung = Rung("blind", "real", {"corpus": CORPUS, "tasks": blind})
    table = transfer({"oracle": oracle, "first": FirstHitAgent()}, [SMALL, rung])
    assert ("blind", "oracle") not in table.results
    assert ("small", "oracle") in table.results
    assert [c.rung for c in table.contrasts("first", ["oracle"])] == ["small"]


def test_same_seeds_are_paired_with_themselves() -> None:
    before, after = [RandomAgent(1), RandomAgent(2)], [OracleAgent(TASKS), OracleAgent(TASKS)]
    table = transfer({"before": before, "after": after}, [SMALL])
    (contrast,) = table.contrasts("after", ["before"])
    found = [r.values("f1") for r in table.results["small", "before"]]
    assert contrast.difference.mean == pytest.approx(1 - np.mean(found))


def test_finished_results_are_not_repeated(tmp_path: Path) -> None:
    first, again, other = Counted("a"), Counted("a"), Counted("a")
    transfer({"it": first}, [SMALL], out_dir=tmp_path)
    assert first.asked == 2
    table = transfer({"it": again}, [SMALL], out_dir=tmp_path)
    assert again.asked == 0
    saved = tmp_path / "results/small/it.0.json"
    text = saved.read_text("utf-8")
    now = f'"schema_version": {SCHEMA_VERSION}'
    assert now in text
    saved.write_text(text.replace(now, '"schema_version": 1'), "utf-8")
    transfer({"it": again}, [SMALL], out_dir=tmp_path)
    assert again.asked == 2, "an earlier version's result is played again"
    assert table.results["small", "it"][0].rows
    assert EvalResult.load(tmp_path / "results/small/it.0.json").agent == "it"
    other.fingerprint = "another"
    transfer({"it": other}, [SMALL], out_dir=tmp_path)
    assert other.asked == 2


def test_an_interrupt_keeps_what_is_there_and_goes_on(tmp_path: Path) -> None:
    class Stops(Counted):
        def act(self, requests: Sequence[TurnRequest]) -> list[str]:
            raise KeyboardInterrupt

    done = Counted("a")
    table = transfer({"a": done, "b": Stops("b")}, [SMALL], out_dir=tmp_path)
    assert not table.complete
    assert list(table.results) == [("small", "a")]
    table = transfer({"a": done, "b": Counted("b")}, [SMALL], out_dir=tmp_path)
    assert table.complete
    assert done.asked == 2
    assert len(table.results) == 2


def test_wrong_calls() -> None:
    with pytest.raises(EvaluationError, match="0 agents and 1 rungs"):
        transfer({}, [SMALL])
    with pytest.raises(EvaluationError, match="same name"):
        transfer({"a": ConstantAgent()}, [SMALL, SMALL])


def test_caps_draw_the_same_questions_for_everybody() -> None:
    many = [replace(TASKS[0], id=f"t{i}") for i in range(60)]
    capped = Rung("many", "real", {"corpus": CORPUS, "tasks": many}, cap=20)
    shared = capped.env()
    drawn = capped.tasks(shared, seed=3)
    assert [t.id for t in drawn] == [t.id for t in capped.tasks(shared, seed=3)]
    assert [t.id for t in drawn] != [t.id for t in capped.tasks(shared, seed=4)]
    assert len({t.id for t in drawn}) == 20
    place = {t.id: i for i, t in enumerate(shared.tasks)}
    assert [place[t.id] for t in drawn] == sorted(place[t.id] for t in drawn)
    assert len(replace(capped, cap=None).tasks(shared)) == len(shared.tasks)


def test_generated_ladder_leaves_home_step_by_step() -> None:
    keywords = {
        "corpus": "encyclopedia", "world": {"entities": 900}, "reward": "f1",
        "tasks": {"simple": 12, "comparison": 6}, "split": "train",
    }  # fmt: skip
    rungs = generated_rungs(keywords, cap=10)
    settings = [rung.env() for rung in rungs]
    names = [set(s.world.names) for s in settings]  # type: ignore[union-attr]
    for away in (1, 2):
        common = {n for n in names[0] & names[away] if " " in n}
        assert len(common) < 0.02 * len(names[away]), sorted(common)[:5]
    table = transfer({"oracle": oracle, "random": RandomAgent()}, rungs)
    for rung in rungs:
        assert table.cell(rung.name, "oracle", "em").mean == 1.0  # type: ignore[union-attr]
        assert table.questions(rung.name) == 10
    assert [settings[i].keywords["split"] for i in range(3)] == ["train", "dev", "test"]
    assert rungs[0].keywords["reward"] == "f1"


def test_absent_sets_say_how_to_get_them(tmp_path: Path) -> None:
    rungs, absent = real_rungs(tmp_path, sets=("hotpotqa", "nq"))
    assert rungs == []
    assert [line.split(":")[0] for line in absent] == ["hotpotqa", "nq"]
    assert "searchgym data get" in absent[0]


def test_real_sets(data_dir: Path) -> None:
    rungs, absent = real_rungs(data_dir, cap=15, sets=("popqa",), rules={"max_turns": 4})
    assert absent == []
    table = transfer({"first-hit": FirstHitAgent()}, rungs)
    assert table.cell("popqa", "first-hit", "evidence_recall").mean > 0.4  # type: ignore[union-attr]
    result = table.results["popqa", "first-hit"][0]
    assert result.settings["rules"]["max_turns"] == 4
    assert result.settings["corpus"]["passages"] == 5215


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agents: dict[str, Any] = {
        "rules": FirstHitAgent(), "trained": [OracleAgent(TASKS), ConstantAgent("<b>")],
    }  # fmt: skip
    table = transfer(agents, [SMALL])
    table.absent = ["nq: <how>"]
    contrasts = table.contrasts("trained", ["rules"])
    curve = [{"episodes": n, "f1": n / 4000, "searches": 1.0} for n in range(0, 3000, 1000)]
    runs = [Learned(ConstantAgent("x"), 5, curve, 2000, 1.0, tmp_path)]  # type: ignore[arg-type]
    written = save_report(tmp_path, table, learned={"trained": runs}, contrasts=contrasts)
    assert set(written) == {"json", "csv", "curves", "transfer", "html"}
    head = written["transfer"].read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20]) > 500
    rows = list(csv.DictReader(written["csv"].open()))
    assert {row["metric"] for row in rows} >= {"em", "f1", "cover_em", "searches"}
    assert next(r for r in rows if r["agent"] == "trained" and r["metric"] == "em")["mean"] == "0.5"
    data = json.loads(written["json"].read_text(encoding="utf-8"))
    assert data["rungs"][0]["settings"]["corpus"]["digest"] == CORPUS.digest
    assert data["contrasts"][0]["agent"] == "trained"
    html = written["html"].read_text(encoding="utf-8")
    assert "&lt;how&gt;" in html
    assert CORPUS.digest in html
    summary = html.partition('class="lead"')[2].partition("</header>")[0]
    assert "trained has F1 0.50 in" in summary
    assert "2,000 training episodes" not in summary, "the ladder is what the summary is about"
    assert "F1 from" in html, "the learning curve in words"


def test_results_are_written_where_nothing_can_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = transfer({"rules": FirstHitAgent()}, [SMALL])
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # as where it is not installed
    with pytest.warns(UserWarning, match=r"pip install .*\[report\].*then 'searchgym report"):
        written = save_report(tmp_path, table)
    assert set(written) == {"json", "csv"}
