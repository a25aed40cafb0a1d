"""The rungs of the full ladder, choosing among them, drops and transfer ratios."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from searchgym import BestSentenceAgent, ConstantAgent, FirstHitAgent
from searchgym.agents import OracleAgent
from searchgym.benchmark import Rung, transfer
from searchgym.benchmark.contenders import baselines
from searchgym.benchmark.lacks import breakdown, lacks
from searchgym.benchmark.ladder import ASKED, OTHERS, STEPS, Engines, Ladder, choose, full_ladder
from searchgym.benchmark.table import ALL_REAL, TransferTable
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from tests.benchmark.small_world import SMALL
from tests.envs.own import people
from tests.small import CORPUS, TASKS


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    """Without real sets and texts."""
    return full_ladder(SMALL, data_dir=tmp_path_factory.mktemp("none"), cap=9)


def test_every_step_is_there_or_says_why_not(ladder: Ladder) -> None:
    steps = {rung.step for rung in ladder.rungs}
    reasons = " ".join(ladder.absent)
    for step in STEPS:
        assert step in steps or step in reasons, step
    assert {rung.kind for rung in ladder.rungs} == {"generated"}
    assert "searchgym data get vital" in reasons
    assert "--generator" in reasons
    assert "hotpotqa" in reasons


def test_engines_that_were_given_are_rungs(data_dir: Path) -> None:
    engines = Engines(generator="folder", remote="http://127.0.0.1:1/retrieve", recording="r.db")
    found = full_ladder(SMALL, data_dir=data_dir, sets=["popqa"], cap=7, engines=engines)
    by_name = {rung.name: rung for rung in found.rungs}
    simulated = by_name["simulated engine"].keywords["engine"]
    assert simulated["generator"] == {"name": "transformers", "model": "folder"}
    small = {"generator": "folder", "words": 12, "per_call": 1}
    told = full_ladder(SMALL, data_dir=data_dir, sets=[], engines=Engines(generator=small)).rungs
    assert next(r for r in told if r.step == "simulated").keywords["engine"] == {
        "name": "simulated", "words": 12, "per_call": 1, "generator": simulated["generator"],
    }  # fmt: skip
    remote = by_name["remote engine: popqa"]
    assert (remote.above, remote.asks, remote.keywords["corpus"]) == ("popqa", "popqa", "popqa")
    assert remote.keywords["engine"]["engine"]["url"].startswith("http://127.0.0.1")
    assert max(found.rungs, key=lambda rung: rung.cost) == remote
    other = Engines(recording="r.db", remote_set="nq")
    lines = full_ladder(SMALL, data_dir=data_dir, sets=["popqa"], engines=other).absent
    assert any("needs the set 'nq'" in line for line in lines)
    replayed = full_ladder(SMALL, data_dir=data_dir, sets=["nq"], engines=other).rungs[-1]
    assert replayed.keywords["engine"] == {"name": "recorded", "path": "r.db", "mode": "replay"}


def test_engines_change_under_the_same_questions(ladder: Ladder) -> None:
    ladder = choose(ladder, ["wording", "degraded", "schema"])
    assert [rung.name for rung in ladder.rungs] == [
        "held-out wording", "other schema", "noisy engine", "hostile engine",
    ]  # fmt: skip
    asked = {}
    for rung in ladder.rungs:
        shared = rung.env()
        asked[rung.name] = [t.id for t in rung.tasks(shared, 3)]
    assert asked["noisy engine"] == asked["hostile engine"] == asked["held-out wording"]
    assert not set(asked["other schema"]) & set(asked["held-out wording"])
    agents: dict[str, Any] = {"first": FirstHitAgent(), "best": BestSentenceAgent()}
    table = transfer(agents, ladder.rungs, seed=3)
    drops = {(d.rung, d.agent): d for d in table.drops("evidence_recall")}
    assert drops["noisy engine", "first"].paired
    assert not drops["other schema", "first"].paired
    assert drops["noisy engine", "first"].drop.mean > 0
    above = table.cell("held-out wording", "first", "evidence_recall")
    below = table.cell("noisy engine", "first", "evidence_recall")
    assert above is not None
    assert below is not None
    assert drops["noisy engine", "first"].drop.mean == pytest.approx(above.mean - below.mean)


def test_choosing_rungs(ladder: Ladder) -> None:
    assert [r.step for r in choose(ladder, ["world", "source"]).rungs] == ["source", "world"]
    assert choose(ladder, []) == ladder
    with pytest.raises(CardError, match=r"unknown rung 'wordings'.*'wording'"):
        choose(ladder, ["wordings"])
    with pytest.raises(CardError, match="no generator given"):
        choose(ladder, ["simulated"])
    with pytest.raises(CardError, match="is none"):
        full_ladder({"corpus": "hotpotqa"})


def test_cheap_rungs_are_played_first() -> None:
    order = []

    class Watches(FirstHitAgent):
        def act(self, requests: Any) -> list[str]:
            order.append(requests[0].episode_id)
            return super().act(requests)

    both = [
        Rung("dear", "real", {"corpus": CORPUS, "tasks": TASKS[:1]}, cost=3),
        Rung("cheap", "real", {"corpus": CORPUS, "tasks": TASKS[1:]}),
    ]
    table = transfer({"it": Watches()}, both)
    assert table.rungs == ("dear", "cheap")
    first = table.results["cheap", "it"][0]
    assert order[0] != order[-1]
    alone: list[str] = []
    order.clear()
    transfer({"it": Watches()}, [both[1]])
    alone += order
    order.clear()
    transfer({"it": Watches()}, both)
    assert order[0] == alone[0]
    assert first.rows


def ratios() -> TransferTable:
    """The oracle against saying nothing, on two real sets and a "held-out world" by hand."""
    rungs = [
        Rung("held-out world", "generated", {"corpus": CORPUS, "tasks": TASKS}),
        Rung("a", "real", {"corpus": CORPUS, "tasks": TASKS}, above="held-out world"),
        Rung("b", "real", {"corpus": CORPUS, "tasks": TASKS[:1]}, above="held-out world"),
    ]
    agents: dict[str, Any] = {
        "nobody": ConstantAgent(), "half": [ConstantAgent("Mira Venn"), ConstantAgent("Mira Venn")],
        "all": [OracleAgent(TASKS), OracleAgent(TASKS)],
    }  # fmt: skip
    table = transfer(agents, rungs)
    table.reference = "held-out world"
    table.baselines = {"all": "nobody", "nobody": "half"}
    return table


def test_transfer_ratios_by_hand() -> None:
    table = ratios()
    gains = {(g.rung, g.agent): g for g in table.gains("em")}
    assert gains["a", "all"].gain.mean == 1
    assert gains["a", "all"].ratio is not None
    assert gains["a", "all"].ratio.mean == 1
    assert gains["a", "all"].ratio.low < 1 < gains["a", "all"].ratio.high, "two questions"
    assert gains[ALL_REAL, "all"].ratio is not None
    assert gains["b", "nobody"].ratio is None
    assert "not above 0" in gains["b", "nobody"].why
    data = table.to_json()
    assert {g["rung"] for g in data["gains"]} == {"a", "b", ALL_REAL}
    assert json.dumps(data["drops"])
    assert data["used"][0]["questions"] == 2


def test_a_real_set_asked_twice_is_averaged_once() -> None:
    rungs = [
        Rung("held-out world", "generated", {"corpus": CORPUS, "tasks": TASKS}),
        Rung("a", "real", {"corpus": CORPUS, "tasks": TASKS}, above="held-out world"),
        Rung("b", "real", {"corpus": CORPUS, "tasks": TASKS[:1]}, above="held-out world"),
        Rung("remote engine: a", "real", {"corpus": CORPUS, "tasks": TASKS}, above="a"),
    ]
    agents: dict[str, Any] = {"nobody": ConstantAgent(), "all": OracleAgent(TASKS)}
    table = transfer(agents, rungs)
    table.reference, table.baselines = "held-out world", {"all": "nobody"}
    counted = {g.rung: g.gain.n for g in table.gains("em")}
    assert counted[ALL_REAL] == counted["a"] + counted["b"]
    assert "remote engine: a" in counted


def test_baselines_are_chosen_by_name_or_score() -> None:
    table = transfer(
        {"first-hit": FirstHitAgent(), "rules": OracleAgent(TASKS), "mine": ConstantAgent()},
        [Rung("held-out world", "generated", {"corpus": CORPUS, "tasks": TASKS})],
    )
    table.reference = "held-out world"
    assert baselines(table, ["mine"], {}, "untrained") == {"mine": "rules"}
    assert baselines(table, ["mine"], {"mine": "first-hit"}, "untrained") == {"mine": "first-hit"}
    assert baselines(table, ["mine"], {"mine": "first-hit"}, "best") == {"mine": "rules"}
    assert baselines(table, ["mine", "first-hit"], {}, "first-hit") == {"mine": "first-hit"}
    with pytest.raises(CardError, match="baseline"):
        baselines(table, ["mine"], {}, "ruls")


def test_lost_points_go_with_what_differs(tmp_path: Path) -> None:
    """Hard questions score .2 everywhere, easy ones .8; the real set has more hard ones."""
    import numpy as np

    rng = np.random.default_rng(0)

    def side(hard: int, easy: int) -> tuple[list[str], Any]:
        chance = np.array([0.2] * hard + [0.8] * easy)
        return ["2"] * hard + ["1"] * easy, (rng.random((2, hard + easy)) < chance).astype(float)

    told = breakdown("hops", side(100, 300), side(300, 100))
    assert [s.name for s in told.strata] == ["1", "2"]
    assert told.lost == pytest.approx(0.3, abs=0.06)
    assert told.explained.mean == pytest.approx(told.lost, abs=0.06)
    assert told.explained.low > 0.2
    assert sum(s.points.mean for s in told.strata) == pytest.approx(told.explained.mean)
    assert not any(s.few for s in told.strata)
    same = breakdown("hops", side(200, 200), side(200, 200))
    assert same.explained.low < 0 < same.explained.high
    alone = breakdown("hops", (["1"] * 50, np.ones((1, 50))), (["2"] * 10, np.zeros((1, 10))))
    assert (alone.uncovered, alone.explained.mean) == (1.0, 0.0)
    assert alone.strata[1].few


def test_what_the_simulator_lacks_is_written_down(tmp_path: Path) -> None:
    wording = Rung("held-out wording", "generated", {**SMALL, "split": "test"}, step="wording")
    real = Rung(
        "mine", "real", {"corpus": CORPUS, "tasks": TASKS}, above="held-out wording", step="real"
    )
    table = transfer({"first": FirstHitAgent()}, [wording, real])
    found = lacks(table, [wording, real], ["first"], tmp_path / "lacks.json")
    assert json.loads((tmp_path / "lacks.json").read_text("utf-8")) == found
    by_trait = {row["trait"]: row for row in found}
    assert {"passage length", "question vocabulary", "rank of the first gold passage"} <= set(
        by_trait
    )
    assert sum(s["real_n"] for s in by_trait["hops"]["strata"]) == len(TASKS)
    assert all(s["few"] for s in by_trait["hops"]["strata"])
    assert lacks(table, [wording], ["first"]) == []


def test_real_text_stands_between_worlds_and_real_sets(tmp_path: Path) -> None:
    """Its two rungs ask about the same unseen pages, in families that a training asks and not."""
    (tmp_path / "vital").mkdir()
    with gzip.open(tmp_path / "vital" / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        for name, text in people(150).items():
            row = {"id": name, "title": name, "text": text, "description": "novelist", "topic": "x"}
            file.write(json.dumps(row) + "\n")
    manifest = {"files": {"corpus.jsonl.gz": "as fetched"}}
    (tmp_path / "vital" / "download.json").write_text(json.dumps(manifest))
    found = full_ladder(SMALL, data_dir=tmp_path, cap=5)
    asked, others = choose(found, ["text"]).rungs
    assert (asked.name, asked.above, others.above) == ("real text", "held-out wording", "real text")
    assert {task.family for task in asked.env().tasks} <= {*ASKED}
    assert {task.family for task in others.env().tasks} <= {*OTHERS}
    assert not {*ASKED} & {*OTHERS} - {"at_most"}
    trained = SearchEnv(corpus="vital", data_dir=str(tmp_path), tasks=dict(ASKED))
    pages = [{i for t in env.tasks for i in t.evidence} for env in (trained, asked.env())]
    assert pages[0]
    assert pages[1]
    assert not pages[0] & pages[1]
