"""Tracks of the speedrun: what is trained, and when it is looked at.

A track trains by its agent's card, with changes. After every so many updates it shows the agent as
it is then; whoever looks stops the clock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from searchgym.cards import card
from searchgym.cli.options import overrides
from searchgym.errors import CardError

Look = Callable[[Any, Any, int], object]
"""Shown the agent, its networks (a module of torch) and the number of updates; raises to end the
training."""


class Plan(NamedTuple):
    """One run: seed, folder, changes of the card as ``--set`` says them, and the model."""

    seed: int
    out: Path
    changes: Sequence[str] = ()
    model: str | None = None


class Track(NamedTuple):
    """A class of agents that are compared."""

    about: str
    train: Callable[[Plan, Look, int], None]
    """Trains and looks; the last argument is the number of updates between two looks."""
    every: int
    changes: tuple[str, ...] = ()
    """Changes of the card that are made before those of a plan."""
    parameters: tuple[float, float] = (0, float("inf"))
    model: str | None = None


def train_scorer(plan: Plan, look: Look, every: int) -> None:
    """Train the candidate agent's networks; worlds, encoding and all are on the clock.

    No development world is played: the held-out questions alone say when to stop.
    """
    from ..candidate.agent import CandidateAgent
    from ..candidate.command import CandidateTraining
    from ..candidate.trainer import CandidateTrainConfig, CandidateTrainer
    from ..candidate.training import SeedTrainer

    if plan.model is not None:
        raise CardError("the track 'scorer' begins from nothing: leave out --model")
    recipe = CandidateTraining().recipe(card("agents", "candidate"), plan.changes)
    made = SeedTrainer(recipe, plan.out)
    arenas, _, shares = made.arenas()
    config = CandidateTrainConfig(**{**recipe.config, "seed": plan.seed})
    trainer = CandidateTrainer(arenas, config, about=recipe.digest, shares=shares)

    def agent() -> CandidateAgent:
        return CandidateAgent(trainer.mean.eval(), made.builder)

    def watch(what: str, done: float, point: object) -> None:
        if what == "training" and trainer.updates % every == 0:
            look(agent(), trainer.mean, trainer.updates)

    trainer.run(watch)
    look(agent(), trainer.mean, trainer.updates)


def train_model(plan: Plan, look: Look, every: int) -> None:
    """Teach a language model by the demonstrations of the card ``smollm``. Making them, and loading
    the model, is on the clock."""
    from searchgym.llms import Sampling
    from searchgym.llms.acceleration import block_attention, training_dtype
    from searchgym.llms.sft import SftTrainer
    from searchgym.policies import TrainableLM

    from ..language_model.recipe import FinetuneRecipe
    from ..language_model.run import demonstrate

    table = _merged(card("agents", "smollm").body["train"], overrides(plan.changes))
    recipe = FinetuneRecipe.of(table)
    lm = TrainableLM(
        plan.model or recipe.model, dtype="float32", freeze=recipe.freeze, compile=recipe.compile
    )
    rows = demonstrate(plan.out, recipe, lm)
    block_attention(lm.model)
    config = recipe.config(plan.seed)
    trainer = SftTrainer(lm.model, rows, config, training_dtype(lm.model.device))
    sampling = Sampling(temperature=0.0, max_tokens=recipe.turn_tokens)
    while trainer.step < config.steps:
        trainer.advance()
        if trainer.step % every == 0 or trainer.step == config.steps:
            trainer.settle()
            look(lm.policy(recipe.renderer, sampling=sampling), lm.model, trainer.step)


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(table)
    for key, value in changes.items():
        old = out.get(key)
        out[key] = (
            _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return out


TRACKS = {
    "scorer": Track(
        "the candidate agent, which begins from nothing", train_scorer, 100,
        ('env={wording={}, tasks={"chain-2"=600}}', "config.episodes=24000"),
    ),
    "135m": Track(
        "a language model of at most 200 million parameters: SmolLM2-135M", train_model, 24,
        parameters=(0, 2e8), model="smollm2-135m",
    ),
    "0.5b": Track(
        "a language model of 300 to 700 million parameters, given as --model", train_model, 24,
        parameters=(3e8, 7e8),
    ),
}  # fmt: skip
