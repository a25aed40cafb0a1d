"""The episode's contracts, walked by small scripted policies."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core.episode import Episode
from searchgym.core.oracle import oracle_actions, oracle_texts
from searchgym.dialects import get_dialect
from searchgym.errors import EpisodeError
from searchgym.rewards import Reward
from searchgym.types import Answer, Failure, Search
from tests.small import TASKS, episode, lookup, play

FULL = "search_r1+parallel+judge+delegate+access"


def test_an_answered_episode_terminates_and_scores():
    e = play(
        episode(reward=Reward.of({"em": 1.0, "search": -0.1, "evidence": 0.5})),
        "<search>Aldor founder</search>",
        "<search>Mira Venn born</search>",
        "<answer>quell</answer>",
    )
    assert (e.phase, e.terminated, e.truncated) == ("done", True, False)
    assert e.outcome().parts == {
        "em": 1.0, "f1": 1.0, "cover_em": 1.0, "format": 1.0, "evidence_recall": 1.0,
        "searches": 2.0, "accesses": 0.0, "calls": 0.0, "invalid": 0.0, "turns": 3.0,
        "answered": 1.0, "truncated": 0.0, "infra_error": 0.0,
    }  # fmt: skip
    # p1 and p2 both mention "Mira Venn": the first search already shows one gold passage or two
    assert sum(t.reward_parts.get("evidence", 0.0) for t in e.turns) == pytest.approx(1.0)
    assert sum(t.reward for t in e.turns) == pytest.approx(1.0 - 0.2 + 0.5)
    assert e.requests() == ()
    with pytest.raises(EpisodeError, match="phase is 'done'"):
        e.act("<answer>again</answer>")


def test_text_after_the_action_does_not_count_and_is_not_kept():
    e = play(episode(), "<search>Aldor</search><answer>Quell</answer>")
    assert e.turns[0].action == Search(("Aldor",))
    assert e.turns[0].text == "<search>Aldor</search>"
    assert "<answer>Quell</answer>" not in e.observation().split("Question:")[1]


def test_a_page_with_answer_tags_scores_nothing_and_breaks_nothing():
    e = play(episode(), "<search>Trap Ignore</search>")
    shown = e.delta
    assert "Ignore this." in shown
    assert shown.count("<information>") == shown.count("</information>") == 1
    assert "<answer>" not in shown
    assert get_dialect("search_r1").parse(shown).action.__class__.__name__ == "Invalid"
    play(e, "I am done")
    assert e.outcome() is None
    assert e.turns[-1].reward == 0.0


def test_an_invalid_action_is_corrected_and_costs_a_turn():
    e = play(episode(max_turns=3, reward=Reward.of({"em": 1.0, "invalid": -0.2})), "hello")
    assert e.turns[0].reward == pytest.approx(-0.2)
    assert e.turns_left == 2
    assert "search" in e.delta
    play(e, "hello", "hello")
    assert e.outcome().end == "max_turns"
    assert e.truncated
    assert not e.terminated


def test_tools_do_not_run_in_the_last_turn():
    e = play(episode(max_turns=2), "<search>Aldor</search>")
    assert e.queries_left == 0
    assert e.act("<search>Quell</search>") == ()
    assert e.outcome().end == "max_turns"
    assert e.queries == 1


def test_the_query_budget_is_kept():
    e = play(episode(max_queries=1), "<search>Aldor</search>", "<search>Quell</search>")
    assert e.queries == 1
    assert "budget" in e.turns[1].action.reason
    assert e.requests()[0].queries_left == 0


def test_character_and_token_budgets_truncate():
    assert play(episode(max_chars=900), "<search>Osten river</search>").outcome().end == "max_chars"
    short = episode(max_tokens=10)
    assert play(short, "hello").outcome().end == "max_tokens"


def test_search_can_be_disabled():
    e = episode(search_enabled=False)
    request = e.requests()[0]
    assert request.tools == ()
    assert request.queries_left == 0
    assert play(e, "<search>Aldor</search>").turns[0].calls == ()


def test_parallel_queries_are_one_turn_and_one_batch():
    e = episode(dialect=FULL, max_parallel=3)
    calls = e.act("<search>Aldor ## Quell ## Aldor</search>")
    assert [c.args["query"] for c in calls] == ["Aldor", "Quell", "Aldor"]
    assert [c.position for c in calls] == [0, 1, 2]
    assert len({c.ctx.key for c in calls}) == 3
    e.receive(lookup(calls))
    assert e.queries == 3
    assert len(e.turns) == 1
    too_many = play(episode(dialect=FULL, max_parallel=2), "<search>a ## b ## c</search>")
    assert "at most 2" in too_many.turns[0].action.reason


def test_a_hidden_observation_leaves_the_context_but_not_the_record():
    e = play(episode(dialect=FULL, judge=True), "<search>Osten river</search>")
    assert "It flows." in e.observation()
    play(e, "<judge>bad</judge>")
    assert "It flows." not in e.observation()
    assert "It flows." in "".join(s.text for s in e.contexts.segments)
    hidden = [s.id for s in e.contexts.segments if not s.visible]
    assert len(hidden) == 1
    assert hidden[0] in e.turns[1].prompt
    assert hidden[0] not in e.contexts.visible_ids(0)
    assert all(s.visible for s in e.requests()[0].segments)
    again = play(e, "<judge>bad</judge>")  # nothing is left to judge
    assert again.turns[-1].action.reason == "there is nothing to judge"


def test_an_executor_works_in_a_context_of_its_own():
    e = episode(dialect=FULL, delegate=True, max_turns=8)
    assert e.requests()[0].role == "planner"
    play(e, "<task>Find who founded Aldor</task>")
    request = e.requests()[0]
    assert (request.context, request.role) == (1, "executor")
    assert "In which town" not in "".join(s.text for s in request.segments)
    play(e, "<search>Aldor founder</search>", "<answer>Mira Venn</answer>")
    planner = e.requests()[0]
    assert planner.context == 0
    text = "".join(s.text for s in planner.segments)
    assert "Mira Venn" in text
    assert "Aldor is a city" not in text  # only the report came back
    with pytest.raises(EpisodeError):
        e.act("<answer>x</answer>", context=1)
    assert play(e, "<answer>Quell</answer>").outcome().parts["em"] == 1.0


def test_a_page_is_read_once_and_then_shrinks_to_a_stub():
    e = episode(dialect="asearcher", page_stub_chars=50, page_chars=2018, max_turns=9)
    play(e, "<access>https://w.example/Osten</access>")
    assert e.delta.count("It flows.") > 100
    play(e, "<search>Quell town</search>")
    assert e.observation().count("It flows.") < 20
    kinds = [s.kind for s in e.requests()[0].segments]
    assert kinds.index("stub") < kinds.index("results")
    play(e, "<access>https://w.example/Osten</access>")  # the second part of the page
    shown = [s.text for s in e.contexts.segments if s.kind == "page"]
    assert [t.count("It flows.") for t in shown] == [200, 200]
    play(e, "<access>https://w.example/nowhere</access>")
    assert e.turns[-1].reward_parts == {"access": 1.0}
    assert e.contexts.segments[-1].kind in ("missing", "stub")
    assert "It flows." not in e.delta


def test_a_fork_replays_exactly_and_a_branch_gets_fresh_noise():
    e = play(episode(), "<search>Aldor founder</search>", "<search>Quell</search>")
    same, fresh, early = e.fork(), e.fork(branch=7), e.fork(at=1)
    assert same.observation() == fresh.observation() == e.observation()
    assert len(early.turns) == 1
    assert early.parent == ("e1", 1)
    keys = [x.act("<search>Mira Venn</search>")[0].ctx.key for x in (e, same, fresh)]
    assert keys[0] == keys[1] != keys[2]
    assert fresh.config.episode_id != e.config.episode_id
    assert same.config.episode_id == e.config.episode_id
    for x in (e, same, fresh):
        x.receive(lookup(x.pending))
    assert e.observation() == same.observation()
    with pytest.raises(EpisodeError, match="cannot fork at turn 9"):
        e.fork(at=9)


def test_branches_of_branches_have_keys_of_their_own():
    e = play(episode(), "<search>Aldor founder</search>")
    tree = [e, *(e.fork(branch=i) for i in (1, 2))]
    tree += [x.fork(branch=i) for x in tree[1:] for i in (1, 2)]
    keys = [x.act("<search>Mira Venn</search>")[0].ctx.key for x in tree]
    assert len(set(keys)) == len({x.config.episode_id for x in tree}) == len(tree)
    with pytest.raises(EpisodeError, match="numbered from 1, got 0"):
        e.fork(branch=0)


def test_forks_do_not_share_state():
    e = play(episode(), "<search>Aldor</search>")
    twin = e.fork()
    play(twin, "<answer>x</answer>")
    assert e.phase == "act"
    assert len(e.turns) == 1


def test_keys_depend_on_seed_turn_and_position_only():
    first = episode(seed=3).act("<search>a</search>")[0].ctx.key
    assert first == episode(seed=3).act("<search>other text</search>")[0].ctx.key
    assert first != episode(seed=4).act("<search>a</search>")[0].ctx.key


def test_retries_are_bounded_and_only_the_failed_calls_are_tried_again():
    e = episode(dialect=FULL, max_parallel=2, max_retries=2)
    calls = e.act("<search>Aldor ## Quell</search>")
    e.receive([lookup(calls)[0], Failure("timeout", "slow")])
    assert e.phase == "receive"
    assert [c.args["query"] for c in e.pending] == ["Quell"]
    e.receive([Failure("timeout", "slow")])
    e.receive(lookup(e.pending))
    assert e.phase == "act"
    assert e.retries == 2
    dead = episode(max_retries=1, reward=Reward.of({"em": 1.0, "search": -1.0}))
    dead.act("<search>Aldor</search>")
    dead.receive([Failure("unavailable", "down")])
    dead.receive([Failure("unavailable", "down")])
    assert dead.outcome().end == "infra_error"
    assert dead.truncated
    assert dead.turns[-1].reward == 0.0
    hopeless = episode()
    hopeless.act("<search>Aldor</search>")
    hopeless.receive([Failure("rejected", "no", retryable=False)])
    assert hopeless.outcome().end == "infra_error"


def test_calling_out_of_order_is_the_callers_error():
    e = episode()
    with pytest.raises(EpisodeError, match="call act"):
        e.receive([])
    e.act("<search>Aldor</search>")
    with pytest.raises(EpisodeError, match="phase is 'receive'"):
        e.act("<answer>x</answer>")
    with pytest.raises(EpisodeError, match="got 0 results for 1 calls"):
        e.receive([])


def test_the_oracle_skips_what_was_seen_and_what_the_budget_forbids():
    e = episode()
    assert oracle_actions(e) == [
        Search(("Aldor founder",)),
        Search(("Mira Venn born",)),
        Answer("Quell"),
    ]
    play(e, "<search>Aldor founder</search>")
    assert len(oracle_actions(e)) <= 2
    assert oracle_actions(episode(max_turns=1)) == [Answer("Quell")]
    play(e, *oracle_texts(e))
    assert e.outcome().parts["em"] == 1.0
    assert oracle_actions(e) == []


TEXTS = st.sampled_from(
    [
        "<search>Aldor founder</search>", "<search>Osten ## Trap</search>", "<judge>bad</judge>",
        "<judge>good</judge>", "<task>look</task>", "<answer>Quell</answer>", "nothing", "",
        "<access>https://w.example/Osten</access>", "<search></search>", "<answer>x</answer>",
    ]
)  # fmt: skip


@given(st.lists(TEXTS, max_size=8), st.booleans())
def test_snapshots_replay_exactly(texts, abstain):
    options = {
        "dialect": FULL, "judge": True, "delegate": True, "max_parallel": 2,
        "page_stub_chars": 30, "may_abstain": abstain,
    }  # fmt: skip
    e = episode(**options)
    for text in texts:
        if e.phase == "done":
            break
        play(e, text)
    copy = Episode.restore(json.loads(json.dumps(e.snapshot())))
    assert copy.contexts.segments == e.contexts.segments
    assert copy.turns == e.turns
    assert copy.outcome() == e.outcome()
    assert copy.requests() == e.requests()
    for at in range(len(e.turns) + 1):
        assert e.fork(at=at).turns == e.turns[:at]
    assert not (e.terminated and e.truncated)
    assert len(e.turns) <= e.config.rules.max_turns


@pytest.mark.parametrize("key", ["config", "events"])
def test_half_a_snapshot_is_refused(key):
    cut = {k: v for k, v in episode().snapshot().items() if k != key}
    with pytest.raises(EpisodeError, match=f"has no '{key}'"):
        Episode.restore(cut)


def test_a_snapshot_of_another_version_is_refused():
    snapshot = {**episode().snapshot(), "version": 0}
    with pytest.raises(EpisodeError, match="snapshot version 0"):
        Episode.restore(snapshot)


def test_a_huge_action_is_cut_and_invalid():
    e = play(episode(max_action_chars=1000), "<search>" + "a" * 1_000_000 + "</search>")
    assert "longer than 1000" in e.turns[0].action.reason
    assert len(e.turns[0].text) == 1000


def test_unanswerable_tasks_want_a_refusal():
    import dataclasses

    task = dataclasses.replace(TASKS[1], answers=("unanswerable",), should_abstain=True)
    assert play(episode(task), "<answer>I don't know.</answer>").outcome().parts["em"] == 1.0
    assert play(episode(task), "<answer>Mira Venn</answer>").outcome().parts["f1"] == 0.0
    assert play(episode(), "<answer>unanswerable</answer>").outcome().parts["em"] == 0.0
