"""The trainer learns, is deterministic, resumes, and its nodes are the episode's own."""

import time
import warnings

import numpy as np
import pytest
import torch

from searchgym.core import Episode, EpisodeConfig, Rules, run_episodes
from searchgym.errors import DataError
from searchgym.rewards import Reward
from searchgym.scoring import metrics, score_answer
from searchgym_agents.candidate.agent import CandidateAgent
from searchgym_agents.candidate.arena import follow, play_greedily, roots
from searchgym_agents.candidate.trainer import CandidateTrainConfig, CandidateTrainer
from searchgym_agents.candidate.tree import enumerated_advantages

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_learns_an_easy_task(make_arena, seed):
    arena = make_arena()
    config = CandidateTrainConfig(
        seed=seed, episodes=1_500, questions=12, evaluate_every=20, width=32
    )
    before = play_greedily(CandidateTrainer([arena], config).model.eval(), [arena])
    trained = CandidateTrainer([arena], config, dev=arena).run()
    after = play_greedily(trained.model, [arena])
    assert after[:, 1].mean() >= 0.95
    assert before[:, 1].mean() <= 0.5
    assert after[:, 3].mean() == 1.0  # the evidence was retrieved
    assert trained.curve[-1].f1 >= trained.curve[0].f1


def _short(make_arena, **changes):
    settings = {"episodes": 120, "questions": 6, "evaluate_every": 5, "width": 16} | changes
    return CandidateTrainer([make_arena()], CandidateTrainConfig(**settings), dev=make_arena())


def test_one_seed_gives_equal_weights_and_another_does_not(make_arena):
    a, b, c = (_short(make_arena, seed=s).run() for s in (3, 3, 4))
    for (name, x), y in zip(
        a.model.state_dict().items(), b.model.state_dict().values(), strict=True
    ):
        assert torch.equal(x, y), name
    assert [(p.episodes, p.f1) for p in a.curve] == [(p.episodes, p.f1) for p in b.curve]
    assert not torch.equal(a.model.members[0].heads.weight, c.model.members[0].heads.weight)


def test_how_many_threads_there_are_changes_no_bit(make_arena):
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            found.append(_short(make_arena).run().model.state_dict())
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    for name, weights in found[0].items():
        assert torch.equal(weights, found[1][name]), name


def test_training_leaves_global_generators_alone(make_arena):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    _short(make_arena, episodes=96).run()
    assert torch.equal(torch.rand(3), expected)


def test_resumed_run_equals_an_unbroken_one(make_arena, tmp_path):
    file = tmp_path / "run.safetensors"
    whole = _short(make_arena).run(checkpoint=None)
    broken = _short(make_arena)
    stop = {"left": 12}

    def report(what, done, point):
        if what == "training":
            stop["left"] -= 1
            if not stop["left"]:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken.run(report, checkpoint=file)
    again = _short(make_arena)
    again.restore(file)
    assert again.updates == 10
    for x, y in zip(
        whole.model.state_dict().values(), again.run().model.state_dict().values(), strict=True
    ):
        assert torch.equal(x, y)


def test_a_checkpoint_of_other_settings_is_refused(make_arena, tmp_path):
    file = tmp_path / "run.safetensors"
    _short(make_arena).run(checkpoint=file)
    with pytest.raises(DataError, match="seed"):
        _short(make_arena, seed=9).restore(file)
    with pytest.raises(DataError, match="not a checkpoint"):
        _short(make_arena).restore(tmp_path / "absent")


@pytest.mark.parametrize("dialect", ["plain", "search_r1", "asearcher", "json_tools"])
def test_nodes_are_what_the_real_episode_shows(make_arena, dialect):
    """Random play through the arena and through real episodes: same states, same rewards."""
    arena = make_arena(dialect=dialect)
    weights = {"f1": 1.0, "search": -0.02, "evidence": 0.4}
    agent = CandidateAgent.untrained(arena.builder, seed=1)
    agent.sample = True
    rules = Rules(
        **{
            **{f: getattr(arena.env.rules, f) for f in Rules.__dataclass_fields__},
            "reward": Reward.of(weights),
        }
    )
    episodes = [Episode(EpisodeConfig(t, rules, 0, t.id)) for t in arena.tasks for _ in range(2)]
    run_episodes(episodes, agent, arena.toolbox)
    searched = 0
    for i, episode in enumerate(episodes):
        node = roots([(arena, i // 2)])[0]
        for turn in episode.turns:
            rendered = [arena.dialect.render_action(c.action) for c in node.candidates]
            pick = rendered.index(turn.text)
            if not node.candidates[pick].is_search:
                break
            searched += 1
            node = follow([(node, pick)])[0]
        assert episode.terminated
        paid = node.f1[pick] - 0.02 * node.searches + 0.4 * node.evidence
        assert paid == pytest.approx(sum(t.reward for t in episode.turns))
        assert node.searches == episode.queries
    assert searched > 5


def test_every_answer_is_worth_what_scoring_says(make_arena):
    """Those that share no word with a gold answer are not scored one by one."""
    arena = make_arena()
    first = roots([(arena, i) for i in range(len(arena))])
    for node in follow([(node, 0) for node in first]):
        for c, f1, em in zip(node.candidates, node.f1, node.em, strict=True):
            scores = (
                {"f1": 0, "em": 0}
                if c.is_search
                else score_answer(node.episode.config.task, c.text)
            )
            assert (f1, em) == pytest.approx((scores["f1"], scores["em"]))


def test_weights_anneal(make_arena):
    run = _short(make_arena)
    assert run.weights(0)["evidence"] == pytest.approx(0.4)
    assert run.weights(0.35)["evidence"] == pytest.approx(0.2)
    assert run.weights(0.7)["evidence"] == run.weights(1.0)["evidence"] == 0
    assert run.weights(0.5)["f1"] == 1.0


def test_fine_tuning_starts_from_the_given_model(make_arena):
    first = _short(make_arena).run().model
    arena = make_arena()
    tuned = CandidateTrainer(
        [arena], CandidateTrainConfig(episodes=0, width=16), dev=arena, init=first
    )
    again = play_greedily(tuned.model.eval(), [arena])
    assert np.array_equal(again, play_greedily(first, [arena]))


def test_gains_are_what_searching_brings(make_arena):
    """The evidence a search promises (one engine call) is what following it shows."""
    arena = make_arena()
    checked = 0
    for node in roots([(arena, i) for i in range(len(arena))]):
        assert not node.gains[~node.is_search].any()
        picks = np.flatnonzero(node.is_search).tolist()
        for pick, child in zip(picks, follow([(node, p) for p in picks]), strict=True):
            assert node.gains[pick] == pytest.approx(child.evidence - node.evidence)
            checked += 1
    assert checked > 12


def test_another_runs_visits_change_nothing(make_arena):
    """States are shared between runs through the arena; what a run learns is not."""
    settings = CandidateTrainConfig(episodes=120, questions=6, evaluate_every=5, width=16, seed=3)
    alone = CandidateTrainer([make_arena()], settings).run()
    arena = make_arena()
    CandidateTrainer(
        [arena], CandidateTrainConfig(episodes=120, questions=6, width=16, seed=8)
    ).run()
    after = CandidateTrainer([arena], settings).run()
    for x, y in zip(
        alone.model.state_dict().values(), after.model.state_dict().values(), strict=True
    ):
        assert torch.equal(x, y)


def test_points_of_the_curve_have_the_documented_names(make_arena):
    config = CandidateTrainConfig(episodes=4, questions=2, width=16)
    point = CandidateTrainer([make_arena()], config, dev=make_arena()).run().curve[0]
    assert set(point.__dataclass_fields__) == metrics.CANDIDATE.keys()


def test_seconds_of_a_candidate_count_from_its_first_update(make_arena, monkeypatch):
    """Preparation takes longer than the whole budget; all of it is trained all the same."""
    run = CandidateTrainer(
        [make_arena()], CandidateTrainConfig(seconds=0.3, questions=2, width=16), dev=make_arena()
    )
    begin = run._begin

    def slowly(report):
        time.sleep(0.5)
        begin(report)

    monkeypatch.setattr(run, "_begin", slowly)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = run.run()
    assert trained.updates >= 2
    assert trained.curve[0].train_s == 0
    assert trained.seconds >= 0.3


def test_enumerated_advantages_worked_numbers():
    """Two actions worth 1 and 0 at odds .25 and .75: V = .25, best = 1."""
    logp = torch.tensor([0.25, 0.75]).log()
    got = enumerated_advantages(torch.tensor([1.0, 0.0]), logp, torch.tensor([0, 0]), 1)
    expected = torch.tensor([0.25 * 0.75, -0.75 * 0.25]) / 0.251
    assert torch.allclose(got, expected)
    assert got.sum().abs() < 1e-6


def test_enumerated_advantages_are_the_gradient_of_best_log_value():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, generator=generator, requires_grad=True)
    group = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    worth = torch.tensor([0.2, 0.0, 0.9, 0.0, 0.4, 0.1, 1.3])
    logp = torch.cat([logits[:3].log_softmax(0), logits[3:].log_softmax(0)])
    value = torch.zeros(2).index_add(0, group, logp.exp() * worth)
    best = torch.tensor([0.9, 1.0])
    (best * (value + 1e-3).log()).sum().backward()
    adv = enumerated_advantages(worth, logp, group, 2)
    by_hand = adv - torch.zeros(2).index_add(0, group, adv)[group] * logp.detach().exp()
    assert torch.allclose(logits.grad, by_hand, atol=2e-3)


def test_a_group_worth_nothing_teaches_nothing():
    logp = torch.tensor([0.5, 0.5]).log()
    got = enumerated_advantages(torch.zeros(2), logp, torch.tensor([0, 0]), 1)
    assert torch.equal(got, torch.zeros(2))
    with pytest.raises(ValueError, match="expected equal shapes"):
        enumerated_advantages(torch.zeros(3), logp, torch.tensor([0, 0]), 1)
