"""Orderings: verdicts by worked numbers, small versions of measurements, the shipped table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from searchgym.core import run_episodes
from searchgym.errors import CardError, DataError
from searchgym.policies import TrainableLM
from searchgym.rl import Chains, TaskPlan, Workers
from searchgym.types import Answer
from searchgym_agents.lab.learning_bench import setting, warm
from searchgym_agents.lab.orderings import results
from searchgym_agents.lab.orderings.measurements import evidence, gradient, step_variance
from searchgym_agents.lab.orderings.results import lines, measure, sentences, shown
from searchgym_agents.lab.orderings.searches import (
    Half,
    HalfKnower,
    Hesitant,
    Pairs,
    boundary,
    known,
    pair_tasks,
    turns,
)
from searchgym_agents.lab.orderings.training import Variant, learn, unmasked
from searchgym_agents.lab.orderings.verdicts import (
    ORDERINGS,
    VERDICTS,
    Arm,
    Comparison,
    Ordering,
    judge,
    of_interval,
    overall,
    paired,
    verdict_of,
)
from searchgym_agents.lab.results import load, stored
from searchgym_agents.lab.world import Terse

pytestmark = pytest.mark.contract

A, B = ("a", "x"), ("b", "x")
FEWER = Comparison(A, B, "ratio", most=1.0)


def figures(*values):
    return [{"x": value} for value in values]


def test_an_interval_of_pairs():
    """Differences 1, 2, 3: mean 2, standard deviation 1, t of two degrees of freedom 4.3027."""
    mean, low, high = paired([(2, 1), (4, 2), (6, 3)], "difference")
    half = 4.302653 / math.sqrt(3)
    assert (mean, low, high) == pytest.approx((2, 2 - half, 2 + half))
    # ratios ½, 1 and 2 have the geometric mean 1 and logarithms of standard deviation ln 2
    mean, low, high = paired([(1, 2), (3, 3), (8, 4)], "ratio")
    assert mean == pytest.approx(1)
    assert high == pytest.approx(math.exp(math.log(2) * half))
    assert low == pytest.approx(1 / high)


@pytest.mark.parametrize(
    ("low", "high", "least", "most", "verdict"),
    [
        (0.1, 0.3, 0.0, math.inf, "agree"),
        (-0.1, 0.3, 0.0, math.inf, "undecided"),
        (-0.3, -0.1, 0.0, math.inf, "disagree"),
        (0.0, 0.0, 0.0, math.inf, "undecided"),  # exactly equal is neither more nor less
        (0.5, 0.9, -math.inf, 1.0, "agree"),
        (1.1, 1.9, -math.inf, 1.0, "disagree"),
        (0.5, math.inf, -math.inf, 1.0, "undecided"),
        (-0.01, 0.01, -0.02, 0.02, "agree"),
        (-0.03, 0.01, -0.02, 0.02, "undecided"),
    ],
)
def test_a_verdict_of_an_interval(low, high, least, most, verdict):
    assert of_interval(low, high, least, most, 3) == verdict
    assert of_interval(low, high, least, most, 2) == "not measured"


def test_a_training_that_did_not_get_there_leaves_its_side_open():
    quick, slow = figures(100, 110, 90), figures(400, 420, 390)
    assert judge(FEWER, {"a": quick, "b": slow}).verdict == "agree"
    assert judge(FEWER, {"a": slow, "b": quick}).verdict == "disagree"
    capped = [{**f, "capped": ["x"]} for f in slow]
    assert judge(FEWER, {"a": quick, "b": capped}).verdict == "agree"  # more than 400, then
    found = judge(FEWER, {"a": capped, "b": capped})
    assert (found.low, found.high, found.verdict) == (0, math.inf, "undecided")
    assert judge(FEWER, {"a": [{**f, "capped": ["x"]} for f in quick], "b": slow}).verdict == (
        "undecided"
    )


def test_what_is_not_above_0_has_no_ratio():
    found = judge(FEWER, {"a": figures(0, 0, 0), "b": figures(1, 1, 1)})
    assert (found.mean, found.verdict) == (0, "undecided")


@pytest.mark.parametrize(
    ("first", "second", "verdict", "collapsed"),
    [
        ([0, 0.02, 0], [0, 0, 0.01], "not measurable", (3, 3)),
        ([0, 0.02, 0], [0.5, 0.4, 0.6], "agree", (3, 0)),  # one side did learn
        ([0, 0.5, 0.6], [0.5, 0.4, 0], "agree", (1, 1)),
        ([0.03, 0.03, 0.03], [0, 0, 0], "agree", (0, 3)),
    ],
)
def test_where_nothing_was_learnt_nothing_is_measured(first, second, verdict, collapsed):
    arms = {name: [{"x": x + i / 100, "em": em} for i, em in enumerate(ems)]
            for name, x, ems in (("a", 1, first), ("b", 2, second))}  # fmt: skip
    found = judge(FEWER, arms)
    assert (found.verdict, found.collapsed) == (verdict, collapsed)
    assert judge(FEWER, {name: figures[:2] for name, figures in arms.items()}).verdict == (
        "not measured"
    )


def test_all_comparisons_must_agree():
    assert overall(["agree", "not measurable"]) == "not measurable"
    assert overall(["disagree", "not measurable"]) == "disagree"
    assert overall(["agree", "agree"]) == "agree"
    assert overall(["agree", "undecided"]) == "undecided"
    assert overall(["undecided", "disagree"]) == "disagree"
    assert overall(["disagree", "not measured"]) == overall([]) == "not measured"


def test_seeds_that_lack_an_arm_are_left_out():
    arms = {"a": Arm("step_variance", {"turns": 2}), "b": Arm("step_variance", {"turns": 3})}
    ordering = Ordering("n", "s", "c", "h", arms, (FEWER,), seeds=4)
    pieces = {arm.piece(seed): {"x": 1.0 + (name == "b") + seed / 10}
              for name, arm in arms.items() for seed in range(4)}  # fmt: skip
    assert verdict_of(ordering, pieces)[0] == "agree"
    del pieces[arms["b"].piece(1)]
    assert verdict_of(ordering, pieces)[1][0].seeds == 3
    del pieces[arms["a"].piece(0)]
    verdict, (found,) = verdict_of(ordering, pieces)
    assert (verdict, found.seeds, shown(found)) == ("not measured", 2, "-")


def test_a_declaration_is_checked():
    arm = {"a": Arm("step_variance")}
    with pytest.raises(CardError, match="compares two figures at least once"):
        Ordering("n", "s", "c", "h", arm, ())
    with pytest.raises(CardError, match="no arm 'b'"):
        Ordering("n", "s", "c", "h", arm, (FEWER,))
    with pytest.raises(CardError, match="no range"):
        Ordering("n", "s", "c", "h", arm, (Comparison(A, A),))
    with pytest.raises(CardError, match="measure"):
        results.measure_arm(Arm("lern"), 0)
    with pytest.raises(CardError, match="ordering"):
        measure(["slate"])


def test_declarations():
    """Sources with arXiv ids, at least three seeds, measures that exist, names that fit a line."""
    assert len(ORDERINGS) >= 10
    for name, one in ORDERINGS.items():
        assert "arXiv:" in one.source, name
        assert one.claim, name
        assert one.how, name
        assert one.seeds >= 3
        assert len(name) <= 16, name  # the table fits 80 columns
        assert {arm.measure for arm in one.arms.values()} <= set(results.MEASURES)
    arm = Arm("learn", {"method": "grpo", "reward": {"em": 1.0}, "hops": [1, 2]})
    assert arm.piece(2) == "learn(hops=[1, 2], method=grpo, reward={em: 1.0}) seed 2"


@pytest.mark.parametrize("turns", [2, 3])
def test_candidates_of_one_turn_vary_less_than_chains(turns):
    """SLATE's bound, a share of at least 1 / T, holds for scores that do not depend on each other:
    here a chain's vary together, and a turn's less from one prefix than over all."""
    found = [step_variance(seed, turns=turns) for seed in range(3)]
    assert all(0 < f["siblings"] < f["chains"] / turns for f in found)
    assert all(turns * f["siblings"] <= f["apart"] < f["chains"] for f in found)


def test_dr_grpo_has_no_bias_where_grpo_has():
    """Of a sample of 100 steps, whose noise is about .02; GRPO's bias is .27."""
    found = {m: gradient(0, method=m, size=4, steps=100)["bias"] for m in ("dr_grpo", "grpo")}
    assert found["dr_grpo"] < 0.1
    assert found["grpo"] > 0.2


def test_evidence_is_counted_at_equal_calls():
    found = evidence(0, method="tree_grpo", size=4, groups=3)
    assert found["leaves"] == 4
    assert 1 <= found["chains"] <= found["chains_played"]
    assert evidence(0, method="tree_grpo", size=4, groups=3) == found


def test_results_are_trained_on_where_nothing_is_masked():
    course = Variant(things=8, questions=6, warm_steps=2, warm_tasks=4)
    _, env = setting(course)
    tokenizer, model = warm(course.start)
    lm = TrainableLM(model, tokenizer)
    workers = Workers(lm.policy("bare", seed=0), env, lm)
    (group,) = Chains(2).collect([TaskPlan(env.tasks[0], "t", 1)], workers)
    row = group.members[0].rows[0]
    made = unmasked(row)
    first = int(row.sampled.argmax())
    assert made.sampled[first:].all()
    assert not made.sampled[:first].any()
    assert (made.turn_of_token[row.sampled] == row.turn_of_token[row.sampled]).all()
    assert (np.diff(made.turn_of_token[first:]) >= 0).all()


def test_a_forced_answer_stands_as_the_model_writes_one():
    bridge, target = Terse().force_answer("bami")
    assert (bridge, target) == ("answer: ", "bami")
    assert Terse().parse(bridge + target).action == Answer("bami")


TINY = {"things": 8, "questions": 6, "warm_steps": 2, "warm_tasks": 4, "tasks": 2, "size": 2,
        "episodes": 8}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"families": 2, "reward": {"f1": 1.0, "format": 0.2}},
        {"noisy": True, "changes": {"data": {"use": "curriculum", "curriculum": {
            "use": "scheduled", "params": {"noise": 0.5}}}}},
        {"changes": {"rollout": {"use": "searchgym_agents.lab.orderings.training:Unmasked"}}},
    ],
)  # fmt: skip
def test_a_training_gives_figures(options):
    found = learn(0, method="grpo", **TINY, **options)
    assert {"area", "em", "searches", "begin", "middle", "episodes"} < set(found)
    assert (found["episodes"], found["capped"]) == (8, ["episodes"])


def played(course, expert):
    """The course's environment, and episodes of every question that the expert has played."""
    _, env = setting(course)
    made = [
        env.start(i, task=task, episode_id=f"{task.id}.{i}")
        for task in env.tasks
        for i in range(40)
    ]
    return env, run_episodes(made, expert(env), env.toolbox)


def test_the_knower_searches_for_what_it_does_not_know():
    env, episodes = played(Half(hops=(1,)), HalfKnower)
    knows = known(env)
    assert len(knows) == len(env.tasks) / 2
    assert all(e.parts["em"] == 1 for e in episodes)
    searches = {True: [], False: []}
    for episode in episodes:
        searches[episode.config.task.id in knows].append(episode.queries)
    assert set(searches[False]) == {1}
    assert 0.4 < np.mean(searches[True]) < 0.6


def test_questions_for_two_facts_differ_in_text_and_name():
    """In a small graph the same two facts are soon drawn again."""
    for seed in range(20):
        tasks = pair_tasks(Pairs(things=4, relations=2, seed=seed).graph(), 12)
        assert len({t.id for t in tasks}) == len({t.question for t in tasks}) == 12
    with pytest.raises(CardError, match="fewer than 30 pairs"):
        pair_tasks(Pairs(things=4, relations=2).graph(), 30)


def test_the_hesitant_agent_takes_more_turns_than_it_needs():
    """One search of two queries would do, and does at times."""
    _, episodes = played(Pairs(), Hesitant)
    assert np.mean([e.parts["em"] for e in episodes]) > 0.95
    assert np.mean([len(e.turns) for e in episodes]) > 3
    assert {len(t.calls) for e in episodes for t in e.turns} == {0, 1, 2}
    assert any(len(e.turns) == 2 and e.queries == 2 for e in episodes)


def test_how_a_model_searches_after_a_training():
    few = {**TINY, "each": 2}
    found = boundary(0, method="saas", **{**few, "size": 8, "episodes": 16, "hops": [1]})
    assert found["half"] == found["known"] / 2
    assert found["most"] == pytest.approx(0.9 * found["unknown"])
    before, after = turns(0, method=None, **few), turns(0, method="hypereyes", **few)
    assert set(before) == set(after) == {"em", "turns", "queries"}


def test_pieces_are_resumed(tmp_path, monkeypatch):
    path, asked = tmp_path / "o.json", []
    monkeypatch.setattr(
        results, "measure_arm", lambda arm, seed: asked.append(seed) or {"bias": 1.0}
    )
    measure(["dr-grpo-bias"], path, minutes=0)
    assert asked == []
    measure(["dr-grpo-bias"], path)
    measure(["dr-grpo-bias"], path)
    assert len(asked) == len(ORDERINGS["dr-grpo-bias"].pieces())
    assert lines(load(path, "pieces"), ["dr-grpo-bias"])[0]["verdict"] == "undecided"
    with pytest.raises(DataError, match="no methods"):
        load(path)


def test_the_shipped_table():
    """Every ordering has a row, and what was not measured says so."""
    result = load(stored("orderings"), "pieces")
    assert json.loads(json.dumps(result)) == result
    rows = lines(result)
    assert {row["ordering"] for row in rows} == set(ORDERINGS)
    assert {row["verdict"] for row in rows} <= set(VERDICTS)
    by_name = {one["name"]: one for one in sentences(result)}
    assert by_name["pra-then-caf"]["verdict"] == "not measurable"
    assert by_name["slate-variance"]["verdict"] == "disagree"
    shown_at_0 = {name: {row["at_0"] for row in one["rows"]} for name, one in by_name.items()}
    assert shown_at_0["igpo-episodes"] == {"3/0"}
    assert shown_at_0["masked-results"] == {"0/10"}
    assert shown_at_0["pra-then-caf"] == {"10/10"}
    assert shown_at_0["process-reward"] == {"1/0"}
    against = {row["what"]: row["measured"] for row in by_name["rloo-variance"]["rows"]}
    assert against["rloo / running mean"] == "1.13 [1.10, 1.16]", "8 / 7 by algebra"
    assert against["at 80 %: rloo / no baseline"] == "2.84 [2.45, 3.30]"
    assert sum(one["verdict"] != "not measured" for one in sentences(result)) >= 5
    known = {piece for one in ORDERINGS.values() for piece in one.pieces()}
    assert set(result["pieces"]) <= known, "pieces of declarations that are no more"
