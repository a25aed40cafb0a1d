"""A dialect is a name, a path, a table, a class or an object, and is the same one everywhere."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import searchgym
from searchgym.core import Episode, Trajectory, read_jsonl, write_jsonl
from searchgym.dialects.base import (
    DIALECTS,
    Dialect,
    get_dialect,
    reference,
    reference_from_json,
    reference_to_json,
    with_required_flags,
)
from searchgym.dialects.search_r1 import SearchR1
from searchgym.errors import CardError, DialectError
from searchgym.utils.trust import registered_only
from tests.dialects.common import NAMES
from tests.dialects.own import Brief, Greeting

SMALL: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}, "max_turns": 4}
BRIEF = "tests.dialects.own:Brief"
GREETING = "tests.dialects.own:Greeting"


def local() -> type[SearchR1]:
    """A class that no import path names."""

    class Local(SearchR1):
        def instructions(self, view: Any) -> str:
            return "Local.\n\n"

    return Local


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_form_is_one_record(name: str) -> None:
    base, *flags = name.split("+")
    options = dict.fromkeys(flags, True)
    made = type(get_dialect(base))(**options)
    forms = [name, {"use": base, **options}, {"use": name}, made, get_dialect(name)]
    assert {json.dumps(reference_to_json(reference(form))) for form in forms} == {json.dumps(name)}
    assert made.name == get_dialect(name).name == name
    if not flags:
        assert get_dialect(name) is get_dialect({"use": base})
    assert reference(type(made)) == base


@pytest.mark.parametrize(
    ("spec", "recorded"),
    [
        (BRIEF, BRIEF),
        (Brief, BRIEF),
        (Brief(), BRIEF),
        (f"{BRIEF}+quoted", f"{BRIEF}+quoted"),
        (Brief(quoted=True), f"{BRIEF}+quoted"),
        ({"use": BRIEF, "quoted": True}, f"{BRIEF}+quoted"),
        ({"use": BRIEF, "quoted": False}, BRIEF),
        (Greeting(greeting="Hi"), {"use": GREETING, "greeting": "Hi"}),
        ({"use": GREETING, "greeting": "Hi", "parallel": True},
         {"use": f"{GREETING}+parallel", "greeting": "Hi"}),
    ],
)  # fmt: skip
def test_a_subclass_is_recorded_by_path_and_options(spec: Any, recorded: Any) -> None:
    written = reference_to_json(reference(spec))
    assert written == recorded
    again = get_dialect(reference_from_json(json.loads(json.dumps(written))))
    assert type(again) is type(get_dialect(spec))
    assert again.options == {
        k: v
        for k, v in (get_dialect(spec).options or {}).items()
        if v  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (BRIEF, "Be brief. 4 turns."),
        (Brief, "Be brief. 4 turns."),
        (Brief(), "Be brief. 4 turns."),
        ({"use": GREETING, "greeting": "Good day"}, "Good day."),
        (Greeting(greeting="Good day"), "Good day."),
        (local(), "Local."),
        (local()(), "Local."),
    ],
)
def test_a_dialect_of_ones_own_is_played_in_every_environment(spec: Any, first: str) -> None:
    env = gym.make("SearchQA-v0", dialect=spec, **SMALL)
    observation, _ = env.reset(seed=1)
    assert observation.splitlines()[0] == first
    vector = gym.make_vec("SearchQA-v0", num_envs=2, dialect=spec, **SMALL)
    observations, _ = vector.reset(seed=1)
    assert observations[0] == observation
    wanted = env.unwrapped.oracle()
    for text in wanted:
        _, reward, terminated, *_ = env.step(text)
    assert terminated
    assert reward == 1.0


def test_a_subclass_gets_the_options_that_the_rules_need() -> None:
    env = gym.make("SearchQA-v0", dialect=Brief(quoted=True), max_parallel=2, **SMALL)
    dialect = get_dialect(env.unwrapped.rules.dialect)
    assert isinstance(dialect, Brief)
    assert dialect.parallel
    assert dialect.name == f"{BRIEF}+parallel+quoted"
    with pytest.raises(CardError, match="must be made with parallel=True"):
        gym.make("SearchQA-v0", dialect=local()(), max_parallel=2, **SMALL)
    with pytest.raises(CardError, match="has no way to say 'access'"):
        with_required_flags("agentgl", tools=("search", "access"))


def test_snapshot_and_trajectory_find_the_dialect_again(tmp_path: Path) -> None:
    env = gym.make("SearchQA-v0", dialect={"use": GREETING, "greeting": "Hi"}, **SMALL)
    env.reset(seed=3)
    env.step("<search> river </search>")
    snapshot = json.loads(json.dumps(env.unwrapped.snapshot()))
    assert snapshot["config"]["rules"]["dialect"] == {"use": GREETING, "greeting": "Hi"}
    assert Episode.restore(snapshot).observation().startswith("Hi.")
    write_jsonl(tmp_path / "t.jsonl", [Trajectory.of(env.unwrapped.episode)])
    (kept,) = read_jsonl(tmp_path / "t.jsonl")
    assert kept.replay().observation() == env.unwrapped.episode.observation()
    again = pickle.loads(pickle.dumps(env.unwrapped))
    assert again.episode.observation() == env.unwrapped.episode.observation()


def test_an_object_without_a_path_says_that_its_snapshot_needs_it() -> None:
    dialect = local()()
    env = gym.make("SearchQA-v0", dialect=dialect, **SMALL).unwrapped
    env.reset(seed=3)
    env.step("<search> river </search>")
    snapshot = json.loads(json.dumps(env.snapshot()))
    with pytest.raises(DialectError, match=r"Local.*pass the object"):
        Episode.restore(snapshot)
    assert Episode.restore(snapshot, dialect=dialect).observation().startswith("Local.")
    fork = env.fork()
    observation, _ = fork.restore(snapshot)  # the environment has it
    assert observation == env.episode.observation()


@pytest.mark.parametrize("form", [lambda use: use, lambda use: {"use": use, "quoted": True}])
def test_a_strangers_file_names_no_code(form: Any) -> None:
    """Not even a class that lies in a module which is already here."""
    env = gym.make("SearchQA-v0", dialect=BRIEF, **SMALL).unwrapped
    env.reset(seed=1)
    snapshot = json.loads(json.dumps(env.snapshot()))
    with registered_only("stranger.jsonl"):
        assert Episode.restore(snapshot)  # the caller has named this one himself
    snapshot["config"]["rules"]["dialect"] = form("tests.dialects.own:Unnamed")
    with registered_only("stranger.jsonl"), pytest.raises(DialectError, match=r"stranger\.jsonl"):
        Episode.restore(snapshot)


class Bare:
    """Not derived from anything here: the methods are enough, options are unknown."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_dialect("plain"), name)


def test_somebody_elses_object_works_in_process() -> None:
    bare = Bare()
    assert isinstance(bare, Dialect)
    assert reference(bare) is bare
    env = gym.make("SearchQA-v0", dialect=bare, **SMALL)
    env.reset(seed=1)
    *_, terminated, _, info = env.step("answer: nothing")
    assert terminated
    assert info["action"] == "Answer"
    assert copy.deepcopy(env.unwrapped.rules) is not None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parallel": True}, "a dialect table names its dialect"),
        ({"use": "serch_r1"}, "Did you mean 'search_r1'"),
        ({"use": GREETING, "greting": "x"}, "greting"),
        ("search_r1+greeting", "unknown option"),
        ({"use": GREETING, "greeting": {1, 2}}, "no JSON"),
        (7, "int is not a dialect"),
        (int, "int is not a dialect"),
    ],
)
def test_what_is_no_dialect_is_named(spec: Any, said: str) -> None:
    with pytest.raises(DialectError, match=said):
        reference(spec)


def test_names_are_those_of_the_registry() -> None:
    for name in DIALECTS:
        assert get_dialect(name).name == name
    assert searchgym.__version__
