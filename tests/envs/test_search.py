"""Single and vector environments over a small corpus of one's own."""

from __future__ import annotations

import dataclasses
import json
import pickle
import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import searchgym
from searchgym.envs.checker import MALFORMED, check_env, same
from searchgym.envs.info import stack_infos
from searchgym.envs.search import SearchEnv
from searchgym.envs.setup import load_setup
from searchgym.envs.vector import SearchVectorEnv, _vectorised
from searchgym.errors import CardError, EpisodeError
from searchgym.types import Failure
from tests.envs.own import OWN, env

from ..small import TASKS


def test_people_can_bring_their_own_corpus_and_tasks():
    e = env()
    observation, info = e.reset(seed=0, options={"task_id": "t1"})
    assert "In which town was the founder of Aldor born?" in observation
    assert e.task(info["task_id"]).id == "t1"
    for action in e.oracle():
        observation, reward, terminated, truncated, info = e.step(action)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["outcome"]["em"] == 1.0
    assert info["outcome"]["answers"] == TASKS[0].answers
    with pytest.raises(EpisodeError, match="call reset"):
        e.step("x")


def test_files_that_were_edited_are_read_again(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Aldor\n\nAldor is a mill.\n")
    asked = tmp_path / "questions.jsonl"
    asked.write_text('{"id": "q", "question": "What is Aldor?", "answers": ["a mill"]}\n')
    keywords = {"corpus": str(notes), "tasks": str(asked)}
    first = SearchEnv(**keywords).corpus
    assert SearchEnv(**keywords).corpus is first
    (notes / "b.md").write_text("# Belu\n\nBelu is a ship.\n")
    second = SearchEnv(**keywords)
    assert [p.title for p in second.corpus] == ["Aldor", "Belu"]
    asked.write_text('{"id": "r", "question": "What is Belu?", "answers": ["a ship"]}\n')
    assert [task.id for task in SearchEnv(**keywords).tasks] == ["r"]


def test_a_card_and_a_model_of_ones_own_that_were_edited_are_read_again(tmp_path):
    from searchgym.corpora import own_files

    card = tmp_path / "encyclopedia"
    shutil.copytree(Path(searchgym.__file__).parents[1] / "corpora" / "encyclopedia", card)
    keywords = {"corpus": str(card), "world": {"entities": 300}, "tasks": {"simple": 4}}
    first = SearchEnv(**keywords)
    assert SearchEnv(**keywords).corpus is first.corpus
    text = (card / "card.toml").read_text()
    (card / "card.toml").write_text(text.replace("seed = 0", "seed = 12"))
    assert [t.question for t in SearchEnv(**keywords).tasks] != [t.question for t in first.tasks]
    model = tmp_path / "model" / "weights"
    model.parent.mkdir()
    model.write_text("a")
    engine = {"name": "simulated", "generator": {"model": str(model.parent)}}
    before = own_files({"engine": engine})
    assert [Path(name).name for name, *_ in before] == ["weights"]
    model.write_text("ab")
    assert own_files({"engine": engine}) != before
    assert own_files({"engine": "bm25", "corpus": "encyclopedia"}) == []
    assert own_files({"engine": {"url": "http://127.0.0.1/retrieve", "prompt": "a/b " * 999}}) == []


def test_the_first_tools_named_are_the_last_to_go():
    """The axis "tools" takes the first so many of the environment's list."""
    e = env(tools=("access", "search"), dialect="plain")
    e.reset(options={"params": {"tools": 1}})
    assert [tool.name for tool in e.episode.requests()[0].tools] == ["access"]


def test_a_restored_sub_task_goes_on_where_it_was():
    e = env(dialect="search_r1+delegate", delegate=True)
    e.reset(seed=1)
    seen = e.step("<task> Who founded Aldor? </task>")[0]
    observation, info = env(dialect="search_r1+delegate", delegate=True).restore(e.snapshot())
    assert (observation, info["context"]) == (seen, 1)


def test_a_wrong_action_moves_no_slot():
    both = SearchVectorEnv(num_envs=2, **OWN)
    both.reset(seed=0)
    with pytest.raises(TypeError, match="got NoneType for slot 1"):
        both.step(["<search>Aldor</search>", None])
    assert [e.phase for e in both.episodes] == ["act", "act"]
    both.step(["<search>Aldor</search>", "<search>Quell</search>"])


def test_the_tasks_and_seeds_of_slots_may_be_arrays():
    vector = SearchVectorEnv(2, **OWN)
    tasks = vector.reset(seed=np.arange(5, 7))[1]["task_id"]
    assert list(tasks) == list(vector.reset(seed=[5, 6])[1]["task_id"])
    wanted = np.array([TASKS[1].id, TASKS[0].id], dtype=object)
    told = vector.reset(options={"task_id": wanted})[1]["task_id"]
    assert [vector.env.task(name).id for name in told] == list(wanted)
    assert vector.reset(options={"task_id": told})[1]["task_id"].tolist() == told.tolist()


def test_vector_arguments_of_another_kind_are_named():
    with pytest.raises(CardError, match="num_envs must be a whole number of at least 1, got '3'"):
        SearchVectorEnv("3", **OWN)
    vector = SearchVectorEnv(2, **OWN)
    for seed in (1.5, "12"):
        with pytest.raises(TypeError, match="seed is a whole number, or one for each slot, got "):
            vector.reset(seed=seed)
    with pytest.raises(CardError, match=r"the options of reset are a table such as .*, got \[1\]"):
        vector.reset(options=[1])


def test_it_passes_its_own_checker():
    check_env(env())
    check_env(env(tools=("search", "access"), dialect="asearcher", reward={"f1": 1.0}))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"dialekt": "plain"}, "Did you mean 'dialect'"),
        ({"dialect": "plane"}, "plain"),
        ({"engine": "bm26"}, "bm25"),
        ({"tools": ("serch",)}, "search"),
        ({"reward": "emm"}, "em"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"corpus": "encyclopaedia"}, "encyclopedia"),
        ({"tasks": 3}, "questions.jsonl"),
        ({"render_mode": "rgb"}, "rgb_array"),
        ({"max_tokens": 5, "token_counter": "tokens"}, "words"),
    ],
)
def test_mistakes_are_one_clear_error(keywords, message):
    with pytest.raises(searchgym.SearchGymError, match=message):
        env(**keywords)


def test_a_misspelt_family_of_a_graphs_questions_is_named(tmp_path):
    path = tmp_path / "films.tsv"
    path.write_text("Inception\tdirector\tChristopher Nolan\n", encoding="utf-8")
    with pytest.raises(searchgym.SearchGymError, match="unknown task family 'simpel'"):
        SearchEnv(corpus=f"kg:{path}", tasks={"simpel": 3})
    with pytest.raises(searchgym.SearchGymError, match="a knowledge graph takes no wording="):
        SearchEnv(corpus=f"kg:{path}", wording={"distractors": 1})


def test_reset_options_are_checked():
    e = env()
    with pytest.raises(CardError, match="task id 't9'"):
        e.reset(options={"task_id": "t9"})
    for wrong in (5, [], "t1"):
        with pytest.raises(CardError, match=r"the options of reset are a table such as .* got "):
            e.reset(options=wrong)
        for name in ("params", "difficulty"):
            with pytest.raises(CardError, match=f"{name} is a table of names and numbers .* got "):
                e.reset(options={name: wrong})
        with pytest.raises(CardError, match="params is a table of names and numbers such as"):
            env(params=wrong)
    with pytest.raises(CardError, match="Did you mean 'task_id'"):
        e.reset(options={"taskid": "t1"})
    with pytest.raises(CardError, match=r"'noise' .*got nan"):
        e.reset(options={"params": {"noise": float("nan")}})
    with pytest.raises(EpisodeError, match="call reset"):
        env().step("x")
    e.reset()
    with pytest.raises(TypeError, match="a string, got int"):
        e.step(3)


def test_seeds_determine_the_task_and_unseeded_resets_go_on():
    first, second = env(), env()
    runs = []
    for e in (first, second):
        keys = [e.reset(seed=5)[1]["episode_id"]]
        keys += [e.reset()[1]["episode_id"] for _ in range(5)]
        runs.append(keys)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 6


def test_forks_share_the_setting_and_nothing_else():
    e = env()
    e.reset(seed=1, options={"task_id": "t1"})
    e.step("<search>Aldor founder</search>")
    twin = e.fork()
    assert twin.setup is e.setup
    twin.step("<answer>x</answer>")
    assert e.episode.phase == "act"
    assert same(e.step("<answer>Quell</answer>")[1], 1.0)
    assert twin.reset()[1]["turn"] == 0
    twin.set_params(top_k=1)
    assert e.params == {}, "what is asked of a fork is not asked of its origin"


def test_snapshots_and_pickles_continue_alike():
    e = env()
    e.reset(seed=1)
    e.step("<search>Aldor</search>")
    copies = [pickle.loads(pickle.dumps(e)), env()]
    copies[1].restore(e.snapshot())
    for action in ("<search>Quell</search>", "<answer>Quell</answer>"):
        results = [x.step(action) for x in (e, *copies)]
        assert same(results[0], results[1])
        assert same(results[0], results[2])


WORLD = {"world": {"entities": 300}, "tasks": {"simple": 8}}


def test_a_snapshot_goes_on_in_the_split_it_was_taken_in():
    e = SearchEnv(**WORLD)
    e.reset(seed=3, options={"split": "test"})
    action, snapshot = e.oracle()[0], json.loads(json.dumps(e.snapshot()))
    session = searchgym.Session(SearchEnv(**WORLD))
    others = [SearchEnv(**WORLD), SearchEnv(**WORLD, split="test")]
    seen = e.step(action)
    for other in (e, *others):
        other.restore(snapshot)
        assert same(other.step(action), seen)
    session.restore(snapshot)
    assert session.step(action).text == seen[4]["delta"]


def test_a_snapshot_without_a_split_goes_on_where_its_task_is():
    e = SearchEnv(**WORLD)
    e.reset(seed=3, options={"split": "test"})
    before = e.episode.snapshot()  # as snapshots were written before they told the split
    assert e.of_split("test").restore(before)[1]["turn"] == 0
    with pytest.raises(EpisodeError, match="none of this environment's 8; restore it in"):
        e.restore(before)


def test_a_snapshot_of_another_world_is_refused():
    e = SearchEnv(**WORLD)
    e.reset(seed=3)
    for other in (SearchEnv(**{**WORLD, "world": {"entities": 300, "seed": 9}}), env()):
        with pytest.raises(EpisodeError, match="none of this environment's"):
            other.restore(e.snapshot())
        with pytest.raises(EpisodeError, match="none of this environment's"):
            searchgym.Session(other).restore(e.snapshot())
    e.reset(seed=3, options={"split": "test"})
    with pytest.raises(EpisodeError, match="taken in the split 'test', which cannot be had here"):
        env().restore(e.snapshot())


def test_a_task_that_start_was_given_is_restored():
    class Own(SearchEnv):
        def start(self, key, *, task=None, **how):
            return super().start(key, task=searchgym.Task("own", "Who?", ("Quell",)), **how)

    e = Own(**OWN)
    e.reset(seed=0)
    snapshot = json.loads(json.dumps(e.snapshot()))
    e.step("<search>Quell</search>")
    e.restore(snapshot)
    assert e.step("<answer>Quell</answer>")[1] == 1.0


def test_renderings_show_the_question_the_hits_and_the_verdict(capsys):
    e = env(render_mode="ansi")
    e.reset(seed=0, options={"task_id": "t1"})
    e.step("<search>Aldor founder</search>")
    e.step("<answer>nowhere</answer>")
    text = e.render()
    for piece in ("QUESTION", "founder of Aldor", "1. Aldor", "WRONG", "Quell"):
        assert piece in text
    human = env(render_mode="human")
    human.reset(seed=0)
    human.step("<search>Aldor [bold]</search>")
    out = capsys.readouterr().out
    assert "RESULTS" in out
    assert "[bold]" in out


class Flaky:
    """An engine that is down for chosen queries."""

    needs_task = False
    fingerprint = "flaky"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def cache_key(self, request):
        return None

    def run(self, batch):
        self.batches.append(len(batch))
        return [Failure("timeout", "down") if "down" in q.text else () for q in batch]


def test_an_outage_is_not_the_policys_fault_and_hurts_no_neighbour():
    engine = Flaky()
    vector = SearchVectorEnv(3, engine=engine, **OWN)
    vector.reset(seed=0)
    _, rewards, terminated, truncated, infos = vector.step(
        ["<search>down</search>", "<search>fine</search>", "no"]
    )
    assert truncated.tolist() == [True, False, False]
    assert not terminated.any()
    assert rewards[0] == 0.0
    assert infos["outcome"]["infra_error"][0]
    assert engine.batches == [2, 1, 1]  # both, then two retries of the failed one alone
    vector.step(["<search>down</search>", "<search>fine</search>", "no"])
    assert engine.batches[3:] == [1]  # a finished slot never reaches the engine


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_env_equals_single_envs(mode):
    n = 4
    vector = SearchVectorEnv(n, autoreset_mode=mode, **OWN)
    singles = gym.vector.SyncVectorEnv([env for _ in range(n)], autoreset_mode=mode)
    assert same(vector.reset(seed=3), singles.reset(seed=3))
    rng = np.random.default_rng(0)
    over = np.zeros(n, dtype=bool)
    texts = ["<search>Aldor founder</search>", "<answer>Quell</answer>", *MALFORMED[:6]]
    for _ in range(25):
        if mode == AutoresetMode.DISABLED and over.any():
            pair = [x.reset(options={"reset_mask": over.copy()}) for x in (vector, singles)]
            assert same(*pair)
        actions = tuple(texts[i] for i in rng.integers(len(texts), size=n))
        got, expected = vector.step(actions), singles.step(actions)
        assert same(got, expected)
        for key, value in expected[4].items():
            if isinstance(value, np.ndarray):
                assert got[4][key].dtype == value.dtype, key
        over = got[2] | got[3]
    assert vector.observation_space.contains(got[0])


def test_slots_at_other_difficulties_are_told_as_they_are():
    """The first slot's whole number does not round the others'."""
    e = SearchVectorEnv(2, params={"dead": 0}, **OWN)
    e.reset(seed=0)
    e.set_params(dead=0.25)
    e.reset(options={"reset_mask": np.array([False, True])})
    info = e.step(["<search>Aldor</search>"] * 2)[-1]
    assert info["params"]["dead"].tolist() == [0.0, 0.25]
    told = stack_infos([{"n": 1, "ok": True}, None, {"n": 2, "ok": False, "x": 0.5}])
    assert (told["n"].dtype, told["ok"].dtype, told["x"].dtype) == (np.int64, np.bool_, np.float64)
    assert (told["n"].tolist(), told["ok"].tolist()) == ([1, 0, 2], [True, False, False])


def test_vector_mistakes_are_clear():
    vector = SearchVectorEnv(2, autoreset_mode="disabled", **OWN)
    with pytest.raises(EpisodeError, match="reset"):
        vector.step(["a", "b"])
    vector.reset(seed=0)
    with pytest.raises(ValueError, match="expected 2 strings"):
        vector.step("ab")
    with pytest.raises(TypeError, match="a string"):
        vector.step([1, 2])
    with pytest.raises(ValueError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.zeros(2, dtype=bool)})
    with pytest.raises(ValueError, match="3 seeds for 2"):
        vector.reset(seed=[1, 2, 3])
    with pytest.raises(CardError, match="autoreset_mode"):
        SearchVectorEnv(2, autoreset_mode="sometimes", **OWN)
    vector.step(["<answer>x</answer>", "<answer>y</answer>"])
    with pytest.raises(EpisodeError, match="reset_mask"):
        vector.step(["a", "b"])


def test_settings_are_built_once_per_recipe():
    named = {"world": {"entities": 60}, "tasks": {"simple": 2}}
    assert load_setup(named).components is load_setup({**named, "k": 1}).components
    assert load_setup(OWN).components is not load_setup(OWN).components  # the caller's objects


def test_a_setting_under_other_rules_shares_what_is_large():
    wide = SearchEnv(**{"k": 2, **OWN})
    one = wide.under(k=1, max_turns=3)
    assert one.corpus is wide.corpus
    assert one.engine is wide.engine
    assert one.tasks is wide.tasks
    assert (one.rules.k, one.rules.max_turns) == (1, 3)
    assert (one.toolbox.tools["search"].k, wide.toolbox.tools["search"].k) == (1, 2)
    assert one.keywords == {**wide.keywords, "k": 1, "max_turns": 3}
    assert wide.rules.k == 2
    with pytest.raises(CardError, match="engine"):
        wide.under(engine="bm25")


def test_the_curriculum_drives_tasks_and_parameters():
    e = env(engine={"name": "degraded"},
            curriculum={"use": "searchgym.curricula:Staged", "max_hops": [1, 2],
                        "min_episodes": 2, "params": [{"noise": 0.0}, {"noise": 0.5}]})  # fmt: skip
    for _ in range(2):
        _, info = e.reset()
        assert (e.task(info["task_id"]).id, info["params"]) == ("t2", {"noise": 0.0})
        e.step("<answer>Mira Venn</answer>")
    seen = set()
    for _ in range(20):
        _, info = e.reset()
        assert info["params"] == {"noise": 0.5}
        seen.add(e.task(info["task_id"]).id)
    assert seen == {"t1", "t2"}
    e.set_params(noise=0.9)
    assert e.reset()[1]["params"] == {"noise": 0.9}


def test_the_dialect_is_made_able_to_say_what_the_rules_offer():
    e = env(tools=("search", "access"), max_parallel=2, judge=True)
    assert set(e.rules.dialect.split("+")) == {"search_r1", "access", "parallel", "judge"}
    assert env().rules.dialect == "search_r1"
    assert env(dialect="plain", max_parallel=3).rules.dialect == "plain"
    assert env(dialect="json_tools", delegate=True).rules.dialect == "json_tools"


def test_human_mode_prints_texts_as_they_are(capsys):
    asked = searchgym.Task("q", "What does :fire: mean in [bold]?", (":100:",))
    e = env(render_mode="human", tasks=[asked])
    e.reset(seed=0)
    assert "What does :fire: mean in [bold]?" in capsys.readouterr().out
    e.step("<answer>:100:</answer>")
    assert "RIGHT: ':100:'" in capsys.readouterr().out


def test_human_mode_prints_nothing_twice(capsys):
    e = env(render_mode="human")
    e.reset(seed=0, options={"task_id": "t1"})
    assert capsys.readouterr().out.count("In which town") == 1
    e.render()
    assert capsys.readouterr().out == ""
    e.step("no action")
    assert capsys.readouterr().out.count("NOT AN ACTION") == 1
    e.render()
    assert capsys.readouterr().out == ""
    e.reset(seed=0, options={"task_id": "t1"})  # another episode of the same name
    assert capsys.readouterr().out.count("In which town") == 1
    snapshot = e.snapshot()
    e.restore(snapshot)
    e.render()  # what another process has printed is not on this screen
    assert capsys.readouterr().out.count("In which town") == 1


def test_a_registered_limit_of_steps_holds_in_vectors():
    gym.register(
        "OwnLimit-v0", entry_point="searchgym.envs.search:SearchEnv",
        vector_entry_point="searchgym.envs.vector:SearchVectorEnv", max_episode_steps=2,
        kwargs=OWN,
    )  # fmt: skip
    try:
        single, both = gym.make("OwnLimit-v0"), gym.make_vec("OwnLimit-v0", 2)
        single.reset(seed=0)
        both.reset(seed=0)
        for turn in range(2):
            over = single.step("<search>Aldor</search>")[2:4]
            *_, terminated, truncated, _ = both.step(["<search>Aldor</search>"] * 2)
            assert (bool(terminated[0]), bool(truncated[0])) == over == (False, turn == 1)
        free = gym.make_vec("OwnLimit-v0", max_episode_steps=-1)
        assert free.env.time_limit is None
        with pytest.raises(CardError, match="max_episode_steps must be a whole number of at least"):
            gym.make_vec("OwnLimit-v0", max_episode_steps=0)
    finally:
        del gym.registry["OwnLimit-v0"]


def test_a_subclass_with_a_step_of_its_own_keeps_the_limit_in_vectors():
    both = _vectorised(Stepping, 2, max_episode_steps=1)
    both.reset(seed=0)
    assert both.step(["<search>Aldor</search>"] * 2)[3].tolist() == [True, True]


class Stepping(SearchEnv):
    def __init__(self, **keywords):
        super().__init__(**{**OWN, **keywords})

    def step(self, action):
        return super().step(action)


def test_info_names_a_task_without_telling_its_family():
    """An id such as "…-unanswerable-10" would tell before the first search that there is nothing
    to find."""
    small = {"world": {"entities": 300}, "tasks": {"simple": 5, "unanswerable": 5}}
    e = gym.make("AbstainQA-v0", **small).unwrapped
    for task in e.tasks:
        _, info = e.reset(options={"task_id": task.id})
        told = str({**info, "delta": ""})  # whose instructions offer to refuse
        assert task.id not in told
        assert task.family not in told
        assert e.reset(options={"task_id": info["task_id"]})[1]["task_id"] == info["task_id"]
        assert e.episode.config.task is task
        info = e.step("<answer> none </answer>")[-1]
        assert (info["outcome"]["task_id"], info["outcome"]["family"]) == (task.id, task.family)
    twins = [TASKS[0], dataclasses.replace(TASKS[0], id="again")]
    e = env(tasks=twins)
    name = e.reset(seed=0)[1]["task_id"]
    with pytest.raises(CardError, match=r"means 2 tasks that ask the same: name 't1', 'again'"):
        e.reset(options={"task_id": name})
