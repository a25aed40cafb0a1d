"""Free text as a Gymnasium space: in vectors, in shared memory, flattened."""

from __future__ import annotations

import copy
import resource

import gymnasium as gym
import pytest
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import batch_space, create_shared_memory, read_from_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from searchgym.envs.checker import same
from searchgym.envs.spaces import FreeText, SharedTexts, TextBatch

KEYWORDS = {"world": {"entities": 300}, "tasks": {"simple": 20}, "max_turns": 3}


@given(st.lists(st.tuples(st.integers(0, 3), st.text(st.characters(), max_size=30))))
def test_shared_texts_hold_any_text(writes: list[tuple[int, str]]) -> None:
    shared, expected = SharedTexts(4, 30), ["", "", "", ""]
    batch = TextBatch(shared)
    for index, text in writes:
        shared.write(index, text)
        expected[index] = text
    assert list(batch) == expected
    assert copy.deepcopy(batch) == tuple(expected)
    assert batch[-1] == expected[-1]
    assert batch[1:] == tuple(expected[1:])


def test_a_lone_surrogate_survives_and_too_long_a_text_is_refused() -> None:
    shared = SharedTexts(2, 3)
    shared.write(0, "\ud800é")
    shared.write(1, "日本\U0001f600")
    assert [shared.read(0), shared.read(1)] == ["\ud800é", "日本\U0001f600"]
    with pytest.raises(ValueError, match="does not fit"):
        shared.write(0, "日本日本日")
    assert shared.read(1) == "日本\U0001f600"
    with pytest.raises(IndexError):
        TextBatch(shared)[2]


def test_room_that_is_not_written_to_costs_no_memory() -> None:
    """Two hundred slots of 32 MB each reserve a hundred times what the process takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shared = create_shared_memory(FreeText(8_000_000), n=200)
    shared.write(199, "x" * 10_000)
    batch = read_from_shared_memory(FreeText(8_000_000), shared, n=200)
    assert [len(text) for text in batch] == [0] * 199 + [10_000]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000  # KiB


def test_free_text_is_flattened_to_itself_but_has_no_size() -> None:
    space = FreeText(100)
    assert flatten_space(space) == space
    assert unflatten(space, flatten(space, "é")) == "é"
    with pytest.raises(ValueError, match="texts differ in length"):
        flatdim(space)
    nested = gym.spaces.Dict({"n": gym.spaces.Discrete(3), "text": space})
    assert flatten(nested, {"n": 1, "text": "é"})["text"] == "é"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"copy": False},
        pytest.param({"context": "spawn"}, marks=pytest.mark.contract),  # each imports everything
        {"shared_memory": False},
    ],
    ids=["default", "views", "spawn", "pipes"],
)
def test_processes_play_what_one_process_plays(options: dict) -> None:
    """The default too, in which observations come through shared memory."""
    apart = gym.make_vec(
        "SearchQA-v0", 3, vectorization_mode="async", vector_kwargs=options, **KEYWORDS
    )
    here = gym.make_vec("SearchQA-v0", 3, **KEYWORDS)
    try:
        first, second = apart.reset(seed=5), here.reset(seed=5)
        assert tuple(first[0]) == second[0]
        kept = first[0]
        for step in range(7):  # through the ends of episodes and their resets
            actions = [plan[0] if plan else "é 日本" for plan in here.unwrapped.oracle()]
            mine, theirs = apart.step(actions), here.step(actions)
            assert tuple(mine[0]) == theirs[0], step
            assert same(mine[1:4], theirs[1:4]), step
            if options.get("copy", True):
                assert mine[0] in apart.observation_space
        views = options.get("copy") is False
        assert (tuple(kept) == tuple(mine[0])) is views
    finally:
        apart.close()


def test_a_batch_of_texts_is_a_tuple() -> None:
    space = batch_space(FreeText(5), 2)
    assert ("é", "ab") in space
    assert ("too long", "ab") not in space
