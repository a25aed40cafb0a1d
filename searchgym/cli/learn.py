"""``searchgym train``: trains a language model by a recipe, or an agent by its card."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError
from ..objects import from_spec
from ..plugins import Registry
from ..utils.trust import registered_only
from .output import JsonFlag, examples
from .targets import Trust

if TYPE_CHECKING:
    from ..cards import Card

_LM = "Language models, by a recipe"
Seconds = Annotated[
    float | None,
    typer.Option(
        min=1, help="Stop training after so many seconds. Runs are reproducible only without it."
    ),
]


def train(
    card: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|CARD]",
            help="A recipe (grpo, dapo, ppo, …) that trains a language model, or an agent card "
            "that learns by itself (candidate). Left out with --resume.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to train: a folder, a name of 'searchgym models' (smollm2-135m), or a hub "
            "name.",
            rich_help_panel=_LM,
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Environment to train in. Default: SearchQA-v0.", rich_help_panel=_LM),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Training steps. Default: the recipe's.", rich_help_panel=_LM
        ),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", rich_help_panel=_LM)] = None,
    lora: Annotated[
        int | None,
        typer.Option(min=1, help="Train LoRA adapters of this rank only.", rich_help_panel=_LM),
    ] = None,
    lora_alpha: Annotated[
        int | None,
        typer.Option(
            min=1, help="Scale of the adapters (alpha / rank). Default: twice the rank.",
            rich_help_panel=_LM,
        ),
    ] = None,
    lora_targets: Annotated[
        str | None,
        typer.Option(
            help="Layers that get adapters: q_proj,v_proj. Default: all linear ones but the "
            "output layer.",
            rich_help_panel=_LM,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float32, bfloat16, … Default: float32 for weights that are trained, else the "
            "checkpoint's.",
            rich_help_panel=_LM,
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, …", rich_help_panel=_LM)
    ] = None,
    renderer: Annotated[
        str | None,
        typer.Option(
            help="Prompt format: plain, bare (without instructions), names (bare, with names as "
            "slots) or chat. Default: as the model was trained, else chat if it has a template.",
            rich_help_panel=_LM,
        ),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="A model to learn from (distillation).", rich_help_panel=_LM)
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=MODEL",
            help="Who plays a role that the recipe asks for: generator=MODEL, a model that stays "
            "as it is, or ranker=shared, the model in training. Repeatable.",
            rich_help_panel=_LM,
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Also log to tensorboard, wandb or trackio. Repeatable.", rich_help_panel=_LM
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --out.", rich_help_panel=_LM),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run. Default: runs/NAME of a recipe or of a card that trains a "
            "language model, else runs/train."
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Fixes the run. Repeatable for cards: one agent per seed."),
    ] = None,
    seconds: Seconds = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE",
            help="Option of a recipe: loss.clip_high=.28, rollout.size=16, train.tasks=32, "
            "env.max_turns=4, sampling.max_tokens=200; of a card's train table: "
            "config.episodes=5000. Repeatable.",
        ),
    ] = None,
    trust: Trust = False,
    show: Annotated[
        bool, typer.Option("--open", help="Follow the training in the browser (searchgym watch).")
    ] = False,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Train a language model by a recipe, or an agent by its card.

    Ctrl-C finishes the step and saves; the same command, or --resume with --out, goes on with the
    same numbers. The folder then holds rl.jsonl (a line per step), curve.png, and model, which can
    be passed to [bold]searchgym eval --agent[/bold], as what a card writes can.
    """
    from .targets import overrides
    from .train_lm import is_recipe, main_process, plan_of, run
    from .watch import watching

    own = {
        "model": model, "env": env, "steps": steps, "lr": lr, "lora": lora,
        "lora-alpha": lora_alpha, "lora-targets": lora_targets, "dtype": dtype, "device": device,
        "renderer": renderer, "teacher": teacher, "role": role, "log": log,
        "resume": resume or None, "trust": trust or None,
    }  # fmt: skip
    if card is None or is_recipe(card):
        if seed is not None and len(seed) > 1:
            raise CardError("one seed per folder: run again with another --seed and --out")
        folder = out or Path("runs") / Path(card or "train").stem
        adapters = _adapters(lora, lora_alpha, lora_targets)
        names = ("dtype", "device", "renderer", "teacher")
        plan = plan_of(
            card, model=model, env=env, out=folder, resume=resume, steps=steps, lr=lr,
            seed=seed[0] if seed else None, changes=overrides(settings),
            values={
                "lora": adapters, "roles": _roles(role), **{name: own[name] for name in names}
            },
            trust=trust,
        )  # fmt: skip
        if show and "save_rollouts" not in plan.train:  # the page shows the newest
            plan = replace(plan, train={**plan.train, "save_rollouts": 8})
        with ExitStack() as reading:
            reading.enter_context(watching(folder, show and main_process()))
            if card is None or trust:  # what is built of a plan alone was named by the folder
                reading.enter_context(
                    registered_only(folder / "run.json", trust=trust, sources=plan.sources)
                )
            run(plan, folder, seconds=seconds, log=log or (), as_json=as_json)
        return
    if said := [f"--{name}" for name, value in own.items() if value is not None]:
        raise CardError(
            f"{', '.join(said)}: for language models, and {card!r} is none of their recipes; "
            "a card's own settings are changed by --set"
        )
    learner = agent_card(card)
    trainer = trainer_of(learner)
    name = "train" if hasattr(trainer, "climbers") else learner.id
    with watching(home := out or Path("runs") / name, show):
        trainer(learner, home, seed or (), settings, seconds=seconds, as_json=as_json)


def _adapters(rank: int | None, alpha: int | None, targets: str | None) -> dict[str, Any] | None:
    """LoRA's options as a plan takes them; None trains all weights."""
    given = {"rank": rank, "alpha": alpha, "targets": targets}
    options: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
    if options and rank is None:
        raise CardError("--lora-alpha and --lora-targets need --lora RANK")
    if targets is not None and targets != "all-linear":
        options["targets"] = [name.strip() for name in targets.split(",") if name.strip()]
    return options or None


def _roles(given: list[str] | None) -> dict[str, str] | None:
    """Role → who plays it, as a plan takes them."""
    pairs = [text.partition("=") for text in given or ()]
    for role, _, who in pairs:
        if not role or not who:
            raise CardError(f"--role ROLE=MODEL or --role ROLE=shared, got {role!r}")
    return {role: who for role, _, who in pairs} or None


def trainer_of(card: Card) -> Any:
    """Return what trains an agent: the trainer that its card names as ``use`` of the table
    ``train``, else that of pretrained models where the table names one, else the candidate
    agent's."""
    table = card.body.get("train", {})
    name = table.get("use", "finetune" if "model" in table else "candidate")
    return from_spec("trainer", name, Registry("trainer"), accepts=(), functions=True)


def agent_card(name: str) -> Card:
    """The agent's card of this name or folder."""
    from ..cards import card

    return card("agents", name)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        epilog=examples(
            "searchgym train candidate",
            "searchgym train smollm",
            "searchgym train grpo --model Qwen/Qwen2.5-0.5B-Instruct --env SearchQA-v0 --steps 50 "
            "--out runs/x",
            "searchgym train dapo --model runs/small --lora 16 --lora-targets q_proj,v_proj -s "
            "env.max_turns=4",
            "searchgym train --resume --out runs/x --steps 100",
            "searchgym train candidate --seed 0 --seed 1 --out runs/two",
            "searchgym train ./my-agent -s config.episodes=20000 --json",
        )
    )(train)
