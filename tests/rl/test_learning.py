"""Every recipe of the catalogue, with its own number of updates per step, teaches a small policy
to ask the right query and to tell what it was shown, about things it was never trained on; and a
training repeats exactly. This shows that a recipe learns, not that it is the method that it says
(``test_as_shipped``, ``test_advantages``, ``test_losses``).

The first recipe of each loss, rollout, data rule and critic always runs. Those that differ from
one of them by an advantage, signal or reward alone are marked slow: how these weigh what was played
is compared with the true gradient for each recipe in ``tests/lab/test_gradients.py``."""

from __future__ import annotations

import time

import pytest
import torch

from tests.rl.learners import NOT_HERE, recipes, trained
from tests.rl.lookup import player, success

pytestmark = pytest.mark.contract


def test_none_begins_with_it() -> None:
    """The start of all of them, but for what a reference or a critic adds."""
    assert success(*player(0)) < 0.4


@pytest.mark.parametrize(
    "name",
    [p for p in recipes("loss", "rollout", "data", "critic") if p.values[0] not in NOT_HERE],
)
def test_every_recipe_learns_to_search(name: str) -> None:
    """In at most five seconds of an idle core (``tests/benchmarks/test_learning_time.py``, of two
    seeds, to the last step); twice that is allowed for here, where others compute beside it. A
    training that has learnt stops; only one that answers well while it plays is asked."""
    run = trained(name, 0)
    began = time.process_time()
    learnt = 0.0
    for step, metrics in enumerate(run.train(), start=1):
        assert metrics["groups_kept"] <= run.config.tasks
        if step == run.config.steps or (step % 3 == 0 and metrics["em"] > 0.7):
            learnt = success(run.lm, run.policy)
            if learnt > 0.75:
                break
    assert time.process_time() - began < 10 * torch.get_num_threads()
    assert learnt > 0.75


def test_a_training_repeats_exactly() -> None:
    """Two of one seed give the same numbers; another seed gives others."""
    runs = [trained("search_r1_grpo", seed, steps=3) for seed in (5, 5, 6)]
    curves = [
        [{k: v for k, v in m.items() if not k.endswith("_s")} for m in run.train()] for run in runs
    ]
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]
    a, b, c = (torch.cat([p.detach().flatten() for p in run.lm.parameters()]) for run in runs)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
