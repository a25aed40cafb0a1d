"""Rows against what the generator was asked and what it gave, over random transcripts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import Episode, Trajectory, step
from searchgym.errors import EpisodeError
from searchgym.llms import Completion, GenRequest, Sampling
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.record import kept
from searchgym.policies.rows import TrainingRow
from searchgym.types import ToolCall
from tests.policies.players import ANSWER, EDITED, TEXTS, Tells, Tools, Watched
from tests.small import TASKS, episode, lookup, play


def check(
    row_list: list[TrainingRow], e: Episode, said: list[tuple[GenRequest, Completion]]
) -> None:
    """Everything a row promises, from the generator's side."""
    assert len(said) == len(e.turns)
    where: dict[int, tuple[TrainingRow, int]] = {}
    for row in row_list:
        n = len(row)
        for array in (row.sampled, row.loss_mask, row.logp, row.version, row.turn_of_token):
            assert array.shape == (n,)
        assert not (row.loss_mask & ~row.sampled).any()
        assert (row.turn_of_token[~row.sampled] == -1).all()
        assert (row.version[~row.sampled] == -1).all()
        assert (row.logp[~row.sampled] == 0).all()
        for i, uid in enumerate(row.turn_uids):
            number = int(uid.rpartition("/")[2])
            assert number not in where, "a turn is in one row"
            where[number] = row, i
    for turn, (request, completion) in zip(e.turns, said, strict=True):
        tokens = kept(completion, turn.text)
        if not tokens.ids:
            assert turn.number not in where
            continue
        row, i = where[turn.number]
        assert row.context == turn.context
        at = np.flatnonzero(row.turn_of_token == i)
        begin, end = int(at[0]), int(at[-1]) + 1
        assert (np.diff(at) == 1).all()
        assert row.ids[:begin].tolist() == list(request.prompt), "the row up to here is the prompt"
        assert row.ids[begin:end].tolist() == list(tokens.ids)
        assert row.sampled[begin:end].all()
        np.testing.assert_array_equal(row.logp[begin:end], tokens.logp)
        assert (row.version[begin:end] == completion.version).all()
    total = sum(len(kept(c, t.text).ids) for t, (_, c) in zip(e.turns, said, strict=True))
    assert sum(int(r.sampled.sum()) for r in row_list) == total, "every sampled id, and only those"


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=8),
    edited=st.booleans(),
    renderer=st.sampled_from(["plain", "chat"]),
)
def test_rows_are_the_prompts_and_completions(
    texts: list[str], edited: bool, renderer: str
) -> None:
    watched = Watched(texts, renderer)
    e = watched.play(episode(**(EDITED if edited else {"max_turns": 9})))
    rows = watched.policy.rows(e)
    check(rows, e, watched.said)
    assert all(r.loss_mask.tolist() == r.sampled.tolist() for r in rows)
    if not edited:
        assert len(rows) <= 1, "nothing was edited"
    saved = Trajectory.from_json(json.loads(json.dumps(Trajectory.of(e).to_json())))
    for a, b in zip(rows, watched.policy.rows(saved), strict=True):
        assert a.turn_uids == b.turn_uids
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.loss_mask, b.loss_mask)


def turns_of(rows: list[TrainingRow]) -> list[tuple[int, list[int]]]:
    return [(r.context, [int(u.rpartition("/")[2]) for u in r.turn_uids]) for r in rows]


@pytest.mark.parametrize("renderer", ["plain", "chat"])
def test_rows_split_where_the_context_was_edited(renderer: str) -> None:
    search, osten = TEXTS[1], TEXTS[3]
    page = Watched([osten, search, search], renderer)
    # turn 0 reads a page, turn 1 still sees it; then it is a stub
    assert turns_of(page.policy.rows(page.play(episode(**EDITED)))) == [(0, [0, 1]), (0, [2, 3])]
    hidden = Watched([search, "<judge> bad </judge>", search], renderer)
    rows = hidden.policy.rows(hidden.play(episode(**EDITED)))
    assert turns_of(rows) == [(0, [0, 1]), (0, [2, 3])]
    useful = Watched([search, "<judge> good </judge>", search], renderer)
    assert turns_of(useful.policy.rows(useful.play(episode(**EDITED)))) == [(0, [0, 1, 2, 3])]
    planner = Watched(["<task> Who founded Aldor? </task>", search, ANSWER, search], renderer)
    rows = planner.policy.rows(planner.play(episode(**EDITED)))
    assert turns_of(rows) == [(0, [0, 3, 4]), (1, [1, 2])], "the planner's row goes on"


def test_what_lies_past_the_cut_is_dropped_and_the_straddling_token_stays() -> None:
    watched = Watched(["<search> Aldor </search>and more"])
    e = watched.play(episode())
    row = watched.policy.rows(e)[0]
    first = row.ids[row.turn_of_token == 0].tolist()
    decode = watched.generator.codec.decode
    assert decode(first).startswith("<search> Aldor </search>")
    assert not decode(first[:-1]).startswith("<search> Aldor </search>")
    assert e.turns[0].text == "<search> Aldor </search>"


def test_a_longer_text_than_the_rules_allow_is_cut_in_ids_too() -> None:
    watched = Watched(["x" * 300, "y" * 300])
    e = watched.play(episode(max_action_chars=50))
    rows = watched.policy.rows(e)
    check(rows, e, watched.said)
    assert len(rows) == 1
    first = rows[0].ids[rows[0].turn_of_token == 0].tolist()
    assert "x" * 50 in watched.generator.codec.decode(first)
    assert len(watched.generator.codec.decode(first)) < 59


def test_self_search_writes_its_results_but_is_not_trained_on_them() -> None:
    text = (
        "<think> a </think><search> Aldor </search><information> Aldor: by Mira </information>"
        "<think> b </think><answer> Mira Venn </answer>"
    )
    watched = Watched([text])
    e = watched.play(episode(TASKS[1], dialect="search_r1_self", max_turns=1, tools=()))
    assert e.turns[0].text == text
    (row,) = watched.policy.rows(e, group="g")
    assert row.baseline_group == "g"
    decode = watched.generator.codec.decode
    masked = decode(row.ids[row.sampled & ~row.loss_mask].tolist())
    assert "<information> Aldor: by Mira </information>" in masked
    assert len(masked) < len("<information> Aldor: by Mira </information>") + 16
    assert "Mira Venn </answer>" in decode(row.ids[row.loss_mask].tolist())


def test_forks_share_history() -> None:
    watched = Watched([TEXTS[1], TEXTS[1]])
    e = episode()
    for _ in range(2):
        step([e], watched, Tools())  # type: ignore[arg-type]
    again, other = e.fork(), e.fork(at=1, branch=7)
    deeper = other.fork(branch=2)
    for fork in (other, deeper, again):
        watched.play(fork)
    main, branch, third = (watched.policy.rows(f)[0] for f in (again, other, deeper))
    assert main.turn_uids[0] == "e1/0"
    assert branch.turn_uids[0] == "e1~7/0"
    shared = int(np.flatnonzero(main.turn_of_token == 0)[-1]) + 1
    for row in (branch, third):
        np.testing.assert_array_equal(row.ids[:shared], main.ids[:shared])
        np.testing.assert_array_equal(row.logp[:shared], main.logp[:shared])
    alone = watched.policy.rows(other, since=1)[0]
    assert alone.turn_uids == branch.turn_uids[1:]
    np.testing.assert_array_equal(alone.ids, branch.ids)
    assert not alone.sampled[:shared].any()


def test_versions_and_groups_are_recorded() -> None:
    watched = Watched([TEXTS[1]])
    e = episode()
    step([e], watched, Tools())  # type: ignore[arg-type]
    assert watched.policy.weights_changed() == 1
    watched.play(e)
    (row,) = watched.policy.rows(e)
    assert row.baseline_group == "t1"
    assert set(row.version[row.turn_of_token == 0]) == {0}
    assert set(row.version[row.turn_of_token == 1]) == {1}


def test_what_the_policy_did_not_write_has_no_rows() -> None:
    watched = Watched([TEXTS[1]])
    e = episode()
    step([e], watched, Tools())  # type: ignore[arg-type]
    by_hand = play(e.fork(), TEXTS[2])
    with pytest.raises(EpisodeError, match="Somebody else acted"):
        watched.policy.act(by_hand.requests())
    other = play(e.fork(at=0), "<search> else </search>")
    with pytest.raises(EpisodeError, match=r"holds '<search> else.* somebody else acted"):
        watched.policy.act(other.requests())
    with pytest.raises(EpisodeError, match="turn 1 of episode 'e1' is not among the 1 turns"):
        watched.policy.rows(play(by_hand, ANSWER))
    watched.policy.forget(["e1"])
    with pytest.raises(EpisodeError, match="told to forget"):
        watched.policy.act(e.requests())
    with pytest.raises(EpisodeError, match="turn 0 of episode 'e1' is not among the 0 turns"):
        watched.policy.rows(e)


def test_only_so_many_episodes_are_remembered() -> None:
    generator = Tells(lambda request: TEXTS[1])
    policy = CausalLMPolicy(generator, memory=2, sampling=Sampling(50))
    episodes = [episode(seed=s) for s in range(3)]
    for e in episodes:
        step([e], policy, Tools())  # type: ignore[arg-type]
    assert len(policy.memory) == 2
    policy.act(episodes[2].requests())
    with pytest.raises(EpisodeError, match="`memory`"):
        policy.act(episodes[0].requests())


def test_an_episode_that_begins_again_is_a_new_one() -> None:
    watched = Watched([TEXTS[1], ANSWER, TEXTS[2]])
    watched.play(episode())
    e = watched.play(episode())
    check(watched.policy.rows(e), e, watched.said[2:])


def test_retries_of_tools_do_not_disturb_the_record() -> None:
    from searchgym.types import Failure

    watched = Watched([TEXTS[1]])
    failures = iter([Failure("timeout", "slow")])

    class Flaky(Tools):
        def run(self, calls: list[ToolCall]) -> Any:
            return [next(failures, None) or r for r in lookup(calls)]

    e = episode()
    while e.phase != "done":
        step([e], watched, Flaky())  # type: ignore[arg-type]
    assert e.retries == 1
    check(watched.policy.rows(e), e, watched.said)
