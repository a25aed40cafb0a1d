"""Candidate agents are trained on worlds, folders and lists of them, in shares by weight."""

from collections import Counter

import pytest

from searchgym.cards import card
from searchgym.errors import CardError
from searchgym_agents.candidate.command import CandidateTraining
from searchgym_agents.candidate.trainer import CandidateTrainConfig, CandidateTrainer
from searchgym_agents.candidate.training import SeedTrainer
from tests.envs.own import notes as notes

SMALL = '{corpus="encyclopedia", world={entities=150}, tasks={simple=8}, worlds=[0, 1]'


def recipe(*settings):
    return CandidateTraining().recipe(card("agents", "candidate"), settings)


def test_settings_name_a_folder_an_id_or_a_list(notes):
    alone = recipe(f"env={notes}")
    listed = recipe(f'env=[{SMALL}, weight=3}}, {{corpus="{notes}", weight=1}}]')
    assert [ground.name for ground in alone.settings()[0]] == [notes]
    train, dev = listed.settings()
    assert [ground.name for ground in train] == ["encyclopedia", "encyclopedia", notes]
    assert sum(ground.share for ground in train[:2]) == pytest.approx(0.75)
    one, two = ((len(ground.env.tasks), ground.share) for ground in train[:2])
    assert one[0] / two[0] == pytest.approx(one[1] / two[1])
    assert train[2].share == pytest.approx(0.25)
    assert [ground.most for ground in dev] == [225, 75]
    assert train[2].env.rules.max_turns == 4  # the card's
    assert listed.world()["world"] == {"entities": 150, "seed": 0}
    assert alone.world() is None


def test_parts_of_the_table_are_changed_as_before():
    made = recipe("env.max_turns=3", "env.world.twin=known", "worlds=[5]")
    assert made.env["max_turns"] == 3
    assert made.env["corpus"] == "encyclopedia"
    assert made.worlds == (5,)
    assert made.world()["world"]["seed"] == 5


def test_a_list_takes_seeds_rules_and_development_tasks(notes):
    mixed = f'env=[{SMALL}}}, "{notes}"]'
    made = recipe(mixed, "worlds=[7]", f'dev=["{notes}"]')
    assert [e.get("worlds") for e in made.env] == [[7], None]
    assert [ground.name for ground in made.settings()[1]] == [f"{notes} dev"]
    changed = made.on({"max_turns": 3, "wording": {"distractors": 2}})
    assert [e["max_turns"] for e in changed.env] == [3, 3]
    assert ["wording" in e for e in changed.env] == [True, False]


def test_questions_are_drawn_by_weight(make_arena):
    arenas = [make_arena(10), make_arena(3)]
    config = CandidateTrainConfig(episodes=400, questions=2, width=8)
    run = CandidateTrainer(arenas, config, shares=[0.25, 0.75])
    drawn = Counter()
    run.tree.roots = lambda chosen, watch=None: (
        drawn.update(a for a, _ in chosen) or type(run.tree).roots(run.tree, chosen, watch)
    )
    run.run()
    assert drawn.total() == 400
    assert 0.62 < drawn[1] / 400 < 0.82


def test_an_arena_plays_some_of_its_tasks_spread_over_all(make_arena):
    arena = make_arena(12)
    some = type(arena)("some", arena.env, arena.builder, 3)
    assert [task.id for task in some.tasks] == ["t0", "t5", "t11"]


def test_an_agent_learns_from_a_folder_of_notes(notes, tmp_path):
    made = recipe(
        f'env=[{{corpus="{notes}", tasks={{fact=30, gap=30, at_most=true}}}}]',
        'encoder={"none": true}', "config.episodes=400", "config.questions=10",
        "config.evaluate_every=10", "config.width=16",
    )  # fmt: skip
    learned = SeedTrainer(made, tmp_path / "out").train(0)
    assert learned.curve[-1]["f1"] > learned.curve[0]["f1"]
    again = SeedTrainer(made, tmp_path / "out").finished(0)
    assert again is not None
    assert again.curve == learned.curve


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("worlds=[0]", "no entry"),
        ("env=[]", "empty"),
        ("env=Hotpot", "HotpotQA"),
        ("dev=[{corpus=1}]", "corpora"),
    ],
)
def test_what_is_wrong_is_said(notes, setting, said):
    first = () if setting.startswith("env") else (f"env={notes}",)
    with pytest.raises(CardError, match=said):
        recipe(*first, setting).settings()
