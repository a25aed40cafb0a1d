"""Recipes of fine-tuning: plain tables, as an agent's card holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from searchgym.envs.mixture import mixture
from searchgym.errors import CardError, check_known
from searchgym.llms.sft import SftConfig
from searchgym.objects import build, check_whole, is_number

_WORLDS = ("expert", "seeds", "env", "variants", "results")
_RL = ("recipe", "env", "steps", "set")


@dataclass(frozen=True, slots=True)
class FinetuneRecipe:
    """Settings of the two stages in which a pretrained model is trained.

    Raises:
        CardError: an unknown key, or a value that is none; says what to write.
    """

    model: str
    """A model's name (``searchgym models``), folder or hub name."""
    demonstrations: Mapping[str, Any]
    """See :func:`~searchgym_agents.language_model.demonstrations.demonstrations`."""
    sft: Mapping[str, Any] = field(default_factory=dict)
    """Changes of :class:`~searchgym.llms.sft.SftConfig`."""
    rl: Mapping[str, Any] = field(default_factory=dict)
    """``recipe`` (its name), ``env`` (an environment's id), ``steps`` and
    ``set`` (tables of changes, as ``searchgym train --set`` makes them). Empty, or with no steps:
    no reinforcement learning."""
    budget: int = 0
    """Tokens that the supervised stage reads, in as many updates as that takes; 0: ``steps`` of
    ``sft``."""
    keep: tuple[int, ...] = ()
    """Tokens after which a copy of the model is kept, for its learning curve."""
    freeze: tuple[str, ...] = ()
    """Patterns of parameters that stay as they are."""
    compile: bool = False
    """Compile the layers for the supervised stage: for GPUs."""
    renderer: Any = "chat"
    """Prompt format, by name or as a table."""
    turn_tokens: int = 160
    """Most tokens that the model may write in a turn, when it is asked later."""

    def __post_init__(self) -> None:
        for name, table, known in (
            ("demonstrations", self.demonstrations, _WORLDS),
            ("rl", self.rl, _RL),
        ):
            if not isinstance(table, Mapping):
                raise CardError(f"[train.{name}] is a table, got {table!r:.80}")
            check_known(f"key of [train.{name}]", known, *table)
        for key in ("expert", "env"):
            if key not in self.demonstrations:
                raise CardError(f"[train.demonstrations] needs {key!r}")
        seeds = self.demonstrations.get("seeds")
        pair = isinstance(seeds, list | tuple) and len(seeds) == 2
        if seeds is not None and not (pair and all(map(is_number, seeds)) and seeds[0] < seeds[1]):
            raise CardError(f"seeds are [first, last], the last not among them; got {seeds!r}")
        if self.rl and "recipe" not in self.rl:
            raise CardError("[train.rl] needs 'recipe', e.g. \"grpo\"")
        check_whole("[train] budget", self.budget, 0)
        check_whole("[train] turn_tokens", self.turn_tokens, 1)
        for tokens in self.keep:
            check_whole("[train] keep: a number of tokens", tokens, 1)
        self.config(0)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> FinetuneRecipe:
        """Read a card's ``train`` table."""
        known = [f.name for f in fields(cls)]
        values = {key: value for key, value in table.items() if key not in ("use", "env")}
        if "env" in table:  # what the demonstrations are of, instead of the card's worlds
            values["demonstrations"] = shown_in(values.get("demonstrations", {}), table["env"])
        check_known("key of [train]", known, *values)
        values["keep"] = tuple(values.get("keep", ()))
        freeze = values.pop("freeze", ())
        values["freeze"] = (freeze,) if isinstance(freeze, str) else tuple(freeze)
        made: FinetuneRecipe = build("[train]", cls, values)
        return made

    def config(self, seed: int) -> SftConfig:
        """Hyperparameters of the supervised stage."""
        if "seed" in self.sft:
            raise CardError("[train.sft] has no seed, which --seed fixes for a run")
        table = {"muon_lr": 0.0, "prompt_weight": 0.0, **self.sft, "seed": seed}
        made: SftConfig = build("[train.sft]", SftConfig, table)
        return made


def shown_in(demonstrations: Mapping[str, Any], entries: Any) -> dict[str, Any]:
    """The table of demonstrations in other environments (:func:`searchgym.envs.mixture`), under the
    same rules."""
    first = demonstrations.get("env", {})
    first = first[0] if isinstance(first, list) else first
    kept = {k: v for k, v in demonstrations.items() if k not in ("seeds", "variants", "env")}
    rules = first if isinstance(first, Mapping) else {}
    return {**kept, "env": [part.table() for part in mixture(entries, rules)]}
