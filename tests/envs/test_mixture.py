"""What a training draws from: entries become environments, worlds and texts, with shares."""

import pytest

from searchgym.envs import EnvironmentMix, SearchEnv, mixture, shares
from searchgym.errors import CardError
from tests.envs.own import notes as notes

WORLD = {"corpus": "encyclopedia", "world": {"entities": 150}, "tasks": {"simple": 6}}


def test_a_world_has_one_environment_a_seed_and_development_tasks_of_its_own(notes):
    (part,) = mixture({**WORLD, "worlds": [3, 4], "dev": {"world": {"seed": 1}}})
    one, two = part.envs()
    dev = part.dev_env()
    asked = [{task.question for task in env.tasks} for env in (one, two, dev)]
    assert part.is_world
    assert not asked[0] & asked[1]
    assert not (asked[0] | asked[1]) & asked[2]


def test_a_folder_of_notes_is_asked_about_pages_that_its_development_tasks_leave_alone(notes):
    (part,) = mixture(notes, {"max_turns": 4})
    (env,) = part.envs()
    gold = [{i for task in e.tasks for i in task.evidence} for e in (env, part.dev_env())]
    assert not part.is_world
    assert env.rules.max_turns == 4
    assert gold[0]
    assert gold[1]
    assert not gold[0] & gold[1]


def test_an_id_takes_keywords_and_an_entry_its_own_rules():
    parts = mixture(
        [{"id": "SimpleQA", "world": {"entities": 150}, "tasks": {"simple": 4}, "max_turns": 3},
         "searchgym/HotpotQA-v0"],
        {"max_turns": 5, "tasks": {"simple": 9}},
    )  # fmt: skip
    (env,) = parts[0].envs()
    assert env.rules.max_turns == 3
    assert len(env.tasks) <= 4
    assert parts[1].keywords == {"max_turns": 5}  # rules only, no tasks
    assert parts[0].is_world
    assert not parts[1].is_world


def test_a_bare_name_is_first_of_the_catalogue_then_a_folder_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("vital", "SearchQA-v0", "mine"):
        (tmp_path / name).mkdir()
    corpus, world, own = mixture(["vital", "SearchQA-v0", "mine"])
    assert (world.id, own.keywords["corpus"]) == ("SearchQA-v0", "mine")
    assert corpus.keywords["corpus"] == "vital"


def test_shares_follow_weights_else_numbers_of_questions(notes):
    weighted = mixture([{**WORLD, "weight": 3}, {"corpus": notes, "weight": 1}])
    assert shares(weighted, [10, 1000]) == [0.75, 0.25]
    assert shares(mixture([WORLD, notes]), [30, 10]) == [0.75, 0.25]
    assert shares(mixture([WORLD, {"corpus": notes, "weight": 1.0}]), [1, 9]) == [0.5, 0.5]


def test_steps_are_shared_out_evenly_from_the_first_on():
    mix = EnvironmentMix.of([{**WORLD, "weight": 3, "worlds": [3, 4]},
                             {"id": "SimpleQA", "tasks": {"simple": 4}, "weight": 1}])  # fmt: skip
    assert mix.shares == (0.375, 0.375, 0.25)
    played = [mix.envs.index(mix.at(step)) for step in range(8)]
    assert sorted(played) == [0, 0, 0, 1, 1, 1, 2, 2]
    assert {*played[:4]} == {0, 1, 2}
    assert mix.at(2) is mix.envs[played[2]], "a step asked for again is the same"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("MultiHopQ", "MultiHopQA-v0"),
        ("nots", "nor is there a file or folder of that name"),
        ([], "empty"),
        ([{"corpus": "encyclopedia", "wieght": 1}], "weight"),
        ([{"corpus": "encyclopedia", "weight": -1}], "at least 0"),
        ([{"corpus": "encyclopedia", "weight": 0}], "sum to 0"),
        ([{"corpus": "encyclopedia", "weight": 1e308}] * 2, "sum to inf"),
        ([{"corpus": "encyclopedia", "weight": 10**400}], "at least 0"),
        ([{"corpus": "hotpotqa", "worlds": [1]}], "no generated world"),
        *[
            ([{"corpus": "encyclopedia", "worlds": worlds}], "seeds")
            for worlds in (5, None, [True])
        ],
        ([{"corpus": "encyclopedia", "worlds": [*range(1001)]}], "1,001 environments, at most"),
        (["encyclopedia"] * 1001, "1,001 environments, at most"),
        ([{"id": ["SearchQA-v0"]}], "environment's id"),
        ([{"corpus": "encyclopedia", "world": [1]}], "world is a table"),
        ([{"corpus": "encyclopedia", "dev": {"world": "x"}}], "world is a table"),
        ([{"corpus": "encyclopedia", "worlds": "01"}], "seeds"),
        (7, "a list"),
        ([7], "name or a table"),
    ],
)
def test_what_is_wrong_is_said(entries, said):
    with pytest.raises(CardError, match=said):
        mixture(entries)


def test_questions_of_a_file_have_no_development_split(tmp_path):
    (part,) = mixture({"corpus": "encyclopedia", "tasks": "mine.jsonl"})
    with pytest.raises(CardError, match="no development split"):
        part.dev_env()


def test_an_environment_of_others_says_what_it_cannot_be_made_of():
    (part,) = mixture({"id": "CartPole-v1", "max_turns": 2})
    with pytest.raises(CardError, match="CartPole-v1 cannot be made of these options"):
        part.envs()


@pytest.mark.parametrize(
    "options", [{"world": "x"}, {"wording": [1]}, {"families": 5}, {"families": "simple"}]
)
def test_options_of_other_types_are_one_line(options):
    with pytest.raises(CardError, match=r"is a (table|list)"):
        SearchEnv(**{"world": {"entities": 60}, "tasks": {"simple": 2}, **options})
